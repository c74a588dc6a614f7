package guest

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// Whatever pages are written, the memory is the image again: each page by
// itself, and any number of them, with and without warm pages.
func TestRewind(t *testing.T) {
	image := preparedImage(t, prepared)
	total := len(image.bytes) / osPageBytes
	warm := readManifest(t, prepared).Warm
	if len(warm) < 20 || len(around(warm, 1)) < 2 {
		t.Fatalf("too few warm pages for a test: %v", warm)
	}
	for name, pages := range map[string][]int{"warm": warm, "none": nil, "all": sequence(total), "beyond": {-1, 0, total - 1, total}} {
		t.Run(name, func(t *testing.T) {
			vm, err := NewVM(testEngine(t), image, testMemory, silent{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = vm.Close() }()
			vm.keepWarm(pages)
			check := func(dirty ...int) {
				t.Helper()
				for _, page := range dirty {
					at := page * osPageBytes
					vm.arena.mem[at]++
					vm.arena.mem[at+osPageBytes-1]++
				}
				if err := vm.Reset(); err != nil {
					t.Fatal(err)
				}
				vm.touch()
				if !bytes.Equal(vm.arena.mem[:len(image.bytes)], image.bytes) {
					t.Fatalf("not the image after writing pages %v", dirty)
				}
			}
			check()
			for page := range total {
				check(page)
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 50 {
				check(r.Perm(total)[:r.IntN(total)]...)
			}
			check(sequence(total)...)
		})
	}
}

func sequence(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestAround(t *testing.T) {
	for _, tt := range []struct {
		pages []int
		unit  int
		want  []pageRange
	}{
		{nil, 1, nil},
		{[]int{3}, 1, []pageRange{{3, 4}}},
		{[]int{0, 1, 5}, 1, []pageRange{{0, 6}}},
		{[]int{0, wideGap}, 1, []pageRange{{0, wideGap + 1}}},
		{[]int{0, wideGap + 1, wideGap + 2}, 1, []pageRange{{0, 1}, {wideGap + 1, wideGap + 3}}},
		// Pages of 16 KiB.
		{[]int{0, 2, 5, 200}, 4, []pageRange{{0, 8}, {200, 204}}},
	} {
		if got := around(tt.pages, tt.unit); !slices.Equal(got, tt.want) {
			t.Errorf("around(%v, %d) = %v, want %v", tt.pages, tt.unit, got, tt.want)
		}
	}
}
