package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of output contracts. Compiling takes time that grows with the square
// of the depth and more, so both are small.
const (
	maxContractBytes  = 256 << 10
	maxContractDepth  = 64
	maxContractValues = 4000
	// maxContractSteps is how many times a schema may be applied to a value in
	// one validation; maxContractTime bounds both compiling and validating.
	maxContractSteps = 1_000_000
	maxContractTime  = 2 * time.Second
	// maxExponent bounds the exponents of numbers: exact arithmetic with huge
	// ones is not feasible.
	maxExponent = 400
)

const contractURL = "cellblock:outputSchema"

// contract is a compiled output schema.
type contract struct {
	mu     sync.Mutex // one validation at a time: the meter is shared
	schema *jsonschema.Schema
	meter  *meter
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
// loaded, size, depth and time are bounded, a panic of the library is an
// error.
func compileContract(raw json.RawMessage) (ct *contract, err error) {
	if len(raw) > maxContractBytes {
		return nil, fmt.Errorf("schema exceeds %d bytes", maxContractBytes)
	}
	if !json.Valid(raw) {
		return nil, errors.New("schema is not JSON")
	}
	if depth, values := measure(raw); depth > maxContractDepth || values > maxContractValues {
		return nil, errors.New("schema is nested too deeply or too large")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	m := &meter{}
	m.start()
	defer func() {
		if p := recover(); p != nil {
			ct, err = nil, fmt.Errorf("compile schema: %v", p)
		}
	}()
	c := jsonschema.NewCompiler()
	c.UseLoader(refuseLoader{})
	c.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "cellblock:meter",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			m.step()
			return m, nil
		},
	})
	if err := c.AddResource(contractURL, doc); err != nil {
		return nil, fmt.Errorf("add schema: %w", err)
	}
	s, err := c.Compile(contractURL)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", err)
	}
	return &contract{schema: s, meter: m}, nil
}

// matches reports whether a value fulfils the contract. A validation that
// takes too long or panics is no match. Nothing of the value is kept or told.
func (ct *contract) matches(value json.RawMessage) (ok bool) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil || !feasibleNumbers(value) {
		return false
	}
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.meter.start()
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return ct.schema.Validate(doc) == nil
}

// refuseLoader loads nothing: no schema causes a network or file access.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("load %q: references outside the schema are refused", url)
}

// meter is called wherever a schema is compiled or applied. It ends the work
// by a panic, the only way out of the library, when there is too much of it.
type meter struct {
	steps    int
	deadline time.Time
}

func (m *meter) start() {
	m.steps, m.deadline = 0, time.Now().Add(maxContractTime)
}

func (m *meter) step() {
	m.steps++
	if m.steps > maxContractSteps || m.steps%256 == 0 && time.Now().After(m.deadline) {
		panic("schema takes too long")
	}
}

// Validate implements jsonschema.SchemaExt.
func (m *meter) Validate(*jsonschema.ValidatorContext, any) { m.step() }

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
	const maxDigits = 1000
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
