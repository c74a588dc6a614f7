package guest

import (
	"bytes"
	"os"
	"slices"
	"sync/atomic"
	"unsafe"
)

// A reset that gives all pages of a guest back to the kernel costs twice: they
// are taken away now, and one by one faulted in by the next run. So the pages
// that nearly every run writes stay, and are made what they were by copying.
// With session recycling that was 0.4 ms of processor time of each run, and is
// 0.03 so.

const (
	// wideGap is how many pages may lie between two that runs write for those
	// between to be compared too: giving a range back takes as long as the
	// comparison of some twenty pages, and drops what was only read.
	wideGap = 64
	// maxRewound is how many pages one reset copies at the most. A small run
	// writes some 70; after one that wrote many more all are given back, so
	// that an idle worker stays small.
	maxRewound = 160
)

// pageRange is the pages from one number up to another.
type pageRange struct{ from, to int }

// keepWarm tells which pages of the image nearly every run writes, in order.
func (vm *VM) keepWarm(pages []int) {
	vm.pages = slices.DeleteFunc(slices.Clone(pages), func(page int) bool {
		return page < 0 || page >= len(vm.image.bytes)/osPageBytes
	})
	slices.Sort(vm.pages)
	vm.near = around(vm.pages, os.Getpagesize()/osPageBytes)
}

// around makes ranges of pages that are near to each other, which are in
// order. The kernel gives back so many at once.
func around(pages []int, unit int) []pageRange {
	var ranges []pageRange
	for _, page := range pages {
		from := page / unit * unit
		last := len(ranges) - 1
		if last < 0 || from-ranges[last].to >= wideGap {
			ranges = append(ranges, pageRange{from, from + unit})
			continue
		}
		ranges[last].to = max(ranges[last].to, from+unit)
	}
	return ranges
}

// touch makes the warm pages private to this process without changing them.
func (vm *VM) touch() {
	for _, page := range vm.pages {
		word := (*uint32)(unsafe.Pointer(&vm.arena.mem[page*osPageBytes])) //nolint:gosec // the start of a page is aligned
		atomic.StoreUint32(word, atomic.LoadUint32(word))
	}
}

// rewind makes memory that has not grown show its image again: every page is
// either compared with it, or given back.
func (vm *VM) rewind() error {
	at, left := 0, maxRewound
	for _, r := range vm.near {
		if _, err := vm.arena.discardRange(uint64(at)*osPageBytes, uint64(r.from)*osPageBytes); err != nil { //nolint:gosec // not negative
			return err
		}
		if left -= copyBack(vm.arena.mem, vm.image.bytes, r, left); left < 0 {
			return vm.arena.discard()
		}
		at = r.to
	}
	_, err := vm.arena.discardRange(uint64(at)*osPageBytes, vm.arena.high)
	return err
}

// copyBack makes a range of pages what they are in the image, and says how many
// were not. It stops after one more than most.
func copyBack(mem, image []byte, r pageRange, most int) (copied int) {
	for at := r.from * osPageBytes; at < r.to*osPageBytes && copied <= most; at += osPageBytes {
		page, was := mem[at:at+osPageBytes], image[at:at+osPageBytes]
		if !bytes.Equal(page, was) {
			copy(page, was)
			copied++
		}
	}
	return copied
}
