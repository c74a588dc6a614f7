package config

import "fmt"

// ValueError says which value of a file cannot be used.
type ValueError struct {
	File string
	At   Pos
	Key  string // the path of the key, such as "mcpServers.github.args[0]"
	Text string
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s:%s: %s: %s", e.File, e.At, e.Key, e.Text)
}

// Notice names a value that was not taken as it was written: unknown, moved
// into its range, or replaced.
type Notice struct {
	File string
	At   Pos
	Key  string
	Text string
}

func (n Notice) String() string {
	if n.At.Line == 0 { // not of a file
		return fmt.Sprintf("%s: %s: %s", n.File, n.Key, n.Text)
	}
	return fmt.Sprintf("%s:%s: %s: %s", n.File, n.At, n.Key, n.Text)
}
