package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section reads the keys of one object. It remembers which keys were asked
// for, so that end can name the rest; what is of a wrong type is an error,
// what is out of range a notice.
type section struct {
	f     *File
	node  *Node
	path  string
	asked []string
	errs  []error
}

// open starts to read an object. A nil node reads as an empty object.
func (f *File) open(node *Node, path string) *section {
	s := &section{f: f, node: node, path: path}
	if node != nil && node.Kind != Object {
		s.node = nil
		s.fail(node, path, "must be an object, not "+node.Kind.String())
	}
	return s
}

func (s *section) fail(n *Node, path, text string) {
	s.errs = append(s.errs, &ValueError{File: s.f.name, At: n.At, Key: path, Text: text})
}

func (s *section) notice(n *Node, key, text string) {
	s.f.Notices = append(s.f.Notices, Notice{File: s.f.name, At: n.At, Key: join(s.path, key), Text: text})
}

// get returns the value of a key, nil when it is absent or null.
func (s *section) get(key string) *Node {
	s.asked = append(s.asked, key)
	n := s.node.Get(key)
	if n == nil || n.Kind == Null {
		return nil
	}
	return n
}

// kind returns the value of a key if it has the kind.
func (s *section) kind(key string, kind Kind) *Node {
	n := s.get(key)
	if n != nil && n.Kind != kind {
		s.fail(n, join(s.path, key), "must be "+kind.String()+", not "+n.Kind.String())
		return nil
	}
	return n
}

func (s *section) object(key string) *section {
	n := s.get(key)
	child := s.f.open(n, join(s.path, key))
	s.errs = append(s.errs, child.errs...)
	child.errs = nil
	return child
}

func (s *section) str(key, standard string) string {
	if n := s.kind(key, String); n != nil {
		return n.Text
	}
	return standard
}

func (s *section) word(key string, words ...string) string {
	n := s.kind(key, String)
	if n == nil {
		return ""
	}
	if !slices.Contains(words, n.Text) {
		s.fail(n, join(s.path, key), fmt.Sprintf("%q is none of %s", n.Text, strings.Join(words, ", ")))
	}
	return n.Text
}

func (s *section) boolean(key string) bool {
	n := s.kind(key, Bool)
	return n != nil && n.Text == "true"
}

// integer reads a whole number and moves it into the range. 0 stands for
// absent; so low is at least 1.
func (s *section) integer(key string, low, top int64) int64 {
	n := s.kind(key, Number)
	if n == nil {
		return 0
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(n.Text, 64)
		if ferr != nil || math.IsInf(f, 0) || f != math.Trunc(f) {
			s.fail(n, join(s.path, key), n.Text+" is no whole number")
			return 0
		}
		// Far beyond every range on either side, where it is cut anyhow.
		const most = 1 << 53
		v = int64(min(max(f, -most), most))
	}
	if kept := min(max(v, low), top); kept != v {
		s.notice(n, key, fmt.Sprintf("%d is outside %d to %d; %d is in force", v, low, top, kept))
		return kept
	}
	return v
}

// duration reads milliseconds as a number, or a text such as "5s".
func (s *section) duration(key string, low, top time.Duration) time.Duration {
	n := s.get(key)
	if n == nil {
		return 0
	}
	if n.Kind != String {
		return time.Duration(s.integer(key, low.Milliseconds(), top.Milliseconds())) * time.Millisecond
	}
	d, err := time.ParseDuration(n.Text)
	if err != nil {
		s.fail(n, join(s.path, key), fmt.Sprintf("%q is no duration such as 250ms or 5s", n.Text))
		return 0
	}
	if kept := min(max(d, low), top); kept != d {
		s.notice(n, key, fmt.Sprintf("%s is outside %s to %s; %s is in force", d, low, top, kept))
		return kept
	}
	return d
}

// strings reads a list of strings; nil when the key is absent, never nil when
// it is there.
func (s *section) strings(key string) []string {
	n := s.kind(key, List)
	if n == nil {
		return nil
	}
	list := make([]string, 0, len(n.Items))
	for i, item := range n.Items {
		if item.Kind != String {
			s.fail(item, fmt.Sprintf("%s[%d]", join(s.path, key), i), "must be a string, not "+item.Kind.String())
			continue
		}
		list = append(list, item.Text)
	}
	return list
}

// table reads an object whose values are strings; numbers and booleans are
// taken as they are written.
func (s *section) table(key string) map[string]string {
	n := s.kind(key, Object)
	if n == nil {
		return nil
	}
	t := make(map[string]string, len(n.Members))
	for _, m := range n.Members {
		switch m.Value.Kind {
		case String, Number, Bool:
			t[m.Key] = m.Value.Text
		case Null:
		default:
			s.fail(m.Value, join(join(s.path, key), m.Key), "must be a string, not "+m.Value.Kind.String())
		}
	}
	return t
}

// ignore marks keys as known without reading them.
func (s *section) ignore(keys ...string) { s.asked = append(s.asked, keys...) }

// end names the keys that nobody asked for and returns what went wrong.
func (s *section) end() error {
	if s.node != nil {
		if s.f.asked != nil {
			s.f.asked[s.path] = append(s.f.asked[s.path], s.asked...)
		}
		for i := range s.node.Members {
			m := &s.node.Members[i]
			if !slices.Contains(s.asked, m.Key) {
				s.f.Notices = append(s.f.Notices, Notice{
					File: s.f.name, At: m.At, Key: join(s.path, m.Key),
					Text: "is not known and has no effect" + s.nearest(m.Key),
				})
			}
		}
	}
	return errors.Join(s.errs...)
}

// nearest suggests the known key that was probably meant.
func (s *section) nearest(key string) string {
	if k := closest(key, s.asked); k != "" {
		return fmt.Sprintf(" (%q is)", k)
	}
	return ""
}
