package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of output contracts. The time to compile grows with the square of
// the depth and more, so both are small.
const (
	maxContractBytes  = 256 << 10
	maxContractDepth  = 64
	maxContractValues = 4000
	// maxExponent and maxDigits bound numbers in schemas and in values: they
	// are compared exactly, which is not feasible for all that JSON can say.
	maxExponent = 400
	maxDigits   = 1000
)

const contractURL = "cellblock:///outputSchema"

// contract is a compiled output schema.
type contract struct {
	schema *jsonschema.Schema
	meter  *meter
	// free holds one token: the meter counts for one validation at a time.
	free chan struct{}
}

// compiled returns the contract of an entry, nil when it has none. It is
// compiled once.
func (e *entry) compiled() (*contract, error) {
	e.contractOnce.Do(func() {
		if !e.walks() || len(e.tool.OutputSchema) == 0 {
			return
		}
		ct, err := compileContract(e.tool.OutputSchema)
		if err != nil {
			e.contractErr = errTool(e.id, "has an invalid outputSchema.")
			return
		}
		e.contract = ct
	})
	return e.contract, e.contractErr
}

// compileContract compiles a schema that nobody vouches for: nothing is
// loaded, size and depth are bounded, a panic of the library is an error.
func compileContract(raw json.RawMessage) (ct *contract, err error) {
	if len(raw) > maxContractBytes {
		return nil, fmt.Errorf("schema exceeds %d bytes", maxContractBytes)
	}
	if !json.Valid(raw) {
		return nil, errors.New("schema is not JSON")
	}
	if depth, values := measure(raw); depth > maxContractDepth || values > maxContractValues || !feasibleNumbers(raw) {
		return nil, errors.New("schema is nested too deeply or too large")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	defer func() {
		if p := recover(); p != nil {
			ct, err = nil, fmt.Errorf("compile schema: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(contractURL, doc); err != nil {
		return nil, fmt.Errorf("add schema: %w", err)
	}
	s, err := c.Compile(contractURL)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	ct = &contract{schema: s, meter: &meter{limit: maxContractTime}, free: make(chan struct{}, 1)}
	ct.meter.attach(s)
	ct.free <- struct{}{}
	return ct, nil
}

// matches reports whether a value fulfils the contract. A validation that is
// too much work or panics is no match. Nothing of the value is kept or told.
// It returns when ctx ends.
func (ct *contract) matches(ctx context.Context, value json.RawMessage) (ok bool) {
	if !feasibleNumbers(value) {
		return false
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return false
	}
	select {
	case <-ct.free:
	case <-ctx.Done():
		return false
	}
	defer func() { ct.free <- struct{}{} }()
	ct.meter.start(ctx)
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return ct.schema.Validate(doc) == nil
}

// refuseLoader loads nothing: no schema causes a network or file access.
type refuseLoader struct{}

// Load implements jsonschema.URLLoader.
func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("load %q: references outside the schema are refused", url)
}

// foreignSyntax finds what regular expressions of JSON Schema may hold and
// those of Go cannot: look-around, references, some escapes.
var foreignSyntax = regexp.MustCompile(`\(\?<?[=!]|\\[1-9]|\\k<|\\c[A-Za-z]|\\u[0-9A-Fa-f{]|\\[dDwWsS]-|-\\[dDwWsS]`)

// pattern is a compiled regular expression. One that Go cannot express is not
// asserted.
type pattern struct {
	text string
	re   *regexp.Regexp // nil: not asserted
}

func compilePattern(text string) (jsonschema.Regexp, error) {
	re, err := regexp.Compile(text)
	if err != nil && !foreignSyntax.MatchString(text) {
		return nil, fmt.Errorf("compile pattern: %w", err)
	}
	if err != nil {
		re = nil
	}
	return &pattern{text, re}, nil
}

// MatchString implements jsonschema.Regexp.
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

// String implements jsonschema.Regexp.
func (p *pattern) String() string { return p.text }

// feasibleNumbers reports whether every number in valid JSON can be computed
// with exactly in little time.
func feasibleNumbers(raw []byte) bool {
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = skipString(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			end := skipValue(raw, i)
			if !feasibleNumber(raw[i:end]) {
				return false
			}
			i = end
		default:
			i++
		}
	}
	return true
}

func feasibleNumber(number []byte) bool {
	e := bytes.IndexAny(number, "eE")
	if e < 0 {
		return len(number) <= maxDigits
	}
	exponent := bytes.TrimLeft(number[e+1:], "+-0")
	if len(exponent) > 3 || e > maxDigits {
		return false
	}
	n := 0
	for _, d := range exponent {
		n = n*10 + int(d-'0')
	}
	return n <= maxExponent
}
