package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// soak makes the runtime do everything it does in hours of work: collections,
// growing stacks, new and dying threads, timers, preemption, locks.
func soak(seconds int) string {
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	rounds := 0
	for rounds == 0 || time.Now().Before(end) {
		rounds++
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { work(i) })
		}
		// A thread that dies locked is not reused, so the runtime makes
		// another.
		wg.Go(runtime.LockOSThread)
		wg.Wait()
		tick := time.NewTicker(time.Millisecond)
		for range 3 {
			<-tick.C
		}
		tick.Stop()
		if rounds%8 == 1 {
			debug.FreeOSMemory()
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if rounds == 0 || m.NumGC == 0 {
		return "did nothing"
	}
	return "ok"
}

func work(i int) {
	grow(2000)
	live := map[string][]byte{}
	for n := range 400 {
		live[fmt.Sprint(n%50)] = make([]byte, 1<<(8+(n+i)%10))
	}
	spin(2 * time.Millisecond)
	time.Sleep(time.Duration(i) * 100 * time.Microsecond)
}

func grow(n int) int {
	var pad [256]byte
	if n == 0 {
		return int(pad[0])
	}
	return grow(n-1) + int(pad[n%256])
}

// spin never calls anything, so that only a signal preempts it.
func spin(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		for x := range 100_000 {
			_ = x * x
		}
	}
}

// die ends the process in one of the ways in which Go programs end.
func die(how string) string {
	switch how {
	case "panic":
		panic("told to")
	case "nil":
		var p *int
		*p = 1
	case "code":
		f := die
		*(*byte)(**(**unsafe.Pointer)(unsafe.Pointer(&f))) = 0xcc
	case "stack":
		var f func(int) int
		f = func(n int) int { return f(n+1) + n }
		return fmt.Sprint(f(0))
	case "map":
		m := map[int]int{}
		for range 4 {
			go func() {
				for i := 0; ; i++ {
					m[i%10]++
				}
			}()
		}
		time.Sleep(5 * time.Second)
	case "memory":
		var hold [][]byte
		for {
			hold = append(hold, make([]byte, 64<<20))
			for i := 0; i < len(hold[len(hold)-1]); i += 4096 {
				hold[len(hold)-1][i] = 1
			}
		}
	}
	return "alive"
}

// threadBomb starts threads until it is ended.
func threadBomb() string {
	for range 10_000 {
		go func() {
			runtime.LockOSThread()
			var b [1]byte
			_, _ = readBlocking(b[:])
		}()
		runtime.Gosched()
	}
	time.Sleep(5 * time.Second)
	return "alive"
}

// readBlocking holds its thread in a read that never returns.
func readBlocking(b []byte) (int, error) { return syscall.Read(socket, b) }
