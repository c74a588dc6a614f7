package config

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Pos is a place in a file. Lines and columns count from 1; columns count
// characters, not bytes.
type Pos struct{ Line, Column int }

func (p Pos) String() string { return fmt.Sprintf("%d:%d", p.Line, p.Column) }

func (p Pos) after(r rune) Pos {
	if isLineEnd(r) {
		return Pos{p.Line + 1, 1}
	}
	return Pos{p.Line, p.Column + 1}
}

// Kind is the type of a value.
type Kind uint8

// The kinds of values.
const (
	Null Kind = iota
	Bool
	Number
	String
	List
	Object
)

func (k Kind) String() string {
	switch k {
	case Null:
		return "null"
	case Bool:
		return "true or false"
	case Number:
		return "a number"
	case String:
		return "a string"
	case List:
		return "a list"
	default:
		return "an object"
	}
}

// Node is one value of a file, with its place.
type Node struct {
	Kind Kind
	At   Pos
	// Text is the value of a string, "true" or "false", or a number as JSON
	// text (or Infinity, -Infinity, NaN).
	Text    string
	Items   []*Node  // of a list
	Members []Member // of an object, in order
}

// Member is one key of an object with its value.
type Member struct {
	Key   string
	At    Pos
	Value *Node
}

// Get gives the value of a key of an object, nil when it is not there.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Members {
		if n.Members[i].Key == key {
			return n.Members[i].Value
		}
	}
	return nil
}

// JSON gives the value as JSON. What JSON has no number for (Infinity, NaN)
// becomes a string of its name, so that a reader of numbers refuses it.
func (n *Node) JSON() []byte {
	var b strings.Builder
	n.writeJSON(&b)
	return []byte(b.String())
}

func (n *Node) writeJSON(b *strings.Builder) {
	switch n.Kind {
	case Null:
		b.WriteString("null")
	case Bool:
		b.WriteString(n.Text)
	case Number:
		if strings.HasSuffix(n.Text, "y") || n.Text == "NaN" {
			b.WriteString(quoteJSON(n.Text))
			return
		}
		b.WriteString(n.Text)
	case String:
		b.WriteString(quoteJSON(n.Text))
	case List:
		b.WriteByte('[')
		for i, v := range n.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.writeJSON(b)
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i := range n.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quoteJSON(n.Members[i].Key))
			b.WriteByte(':')
			n.Members[i].Value.writeJSON(b)
		}
		b.WriteByte('}')
	}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // a string always marshals
	return string(b)
}
