package guest

import (
	"errors"

	"github.com/cellblock-dev/cellblock/ipc"
)

// load compiles a cell in the engine and gives it as a function that has not
// been called. What is no program is a *Refusal.
func (vm *VM) load(c *Cell) (handle, error) {
	if c.probe != "" {
		if err := vm.compile([]byte(c.probe), cellFile); err != nil {
			return 0, c.judge(err)
		}
	}
	fn, err := vm.eval([]byte(c.code), cellFile)
	if err != nil {
		return 0, c.judge(err)
	}
	return fn, nil
}

// judge turns the engine's syntax error into the reason against a cell.
func (c *Cell) judge(err error) error {
	f, ok := errors.AsType[*fault](err)
	if !ok || f.kind != ipc.FailSyntax {
		return err
	}
	source := c.pos.source
	if c.probe != "" && looksLikeShell(source) {
		return shellRefusal()
	}
	r := &Refusal{Failure: ipc.FailSyntax}
	text, stack := f.Error(), c.MapStack(f.stack)
	if c.pos.endsBefore(f.stack) {
		end := c.pos.end()
		text, stack = "SyntaxError: unexpected end of the program", end.String()
		r.Line = end.line
	} else if frames := c.pos.frames(f.stack); len(frames) > 0 {
		r.Line = frames[0].line
	}
	r.Message = withFrames(text, stack)
	return r
}
