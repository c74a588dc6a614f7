package pool

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// cleanups run after the last test.
var cleanups []func() error

// child is the main function of a child process; ok is false in the test.
var child func(args []string) (code int, ok bool)

func TestMain(m *testing.M) {
	if child != nil {
		if code, ok := child(os.Args); ok {
			os.Exit(code)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		for _, f := range cleanups {
			if err := f(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		os.Exit(code)
	}))
}
