package upstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/cellblock-dev/cellblock/internal/spawn"
)

// serverWord in the environment makes the test binary an MCP server of the
// kind that it names.
const serverWord = "UPSTREAM_TEST_SERVER"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == string(spawn.RoleKeeper) {
		if err := spawn.Serve(spawn.Socket, spawn.RoleKeeper); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if kind := os.Getenv(serverWord); kind != "" {
		fakeServer(kind)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// fake is a server that says exactly what a test wants.
type fake struct {
	kind string
	mu   sync.Mutex
	page int
	tool string // the description of the tool "echo"
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func fakeServer(kind string) {
	f := &fake{kind: kind, tool: "says it again"}
	switch kind {
	case "exits":
		fmt.Fprintln(os.Stderr, "cannot go on: token=abcdefghijkl")
		os.Exit(3)
	case "slow":
		time.Sleep(300 * time.Millisecond)
	case "silent":
		time.Sleep(time.Hour)
	case "noisy":
		fmt.Println("Starting server...")
		fmt.Println(`{"not":"a message"}`)
		fmt.Println(`[1,2]`)
		fmt.Println()
	case "secret":
		fmt.Fprintln(os.Stderr, "my key is "+os.Getenv("API_KEY")+" and Bearer abc.def")
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r request
		if json.Unmarshal(line, &r) != nil {
			continue
		}
		go f.answer(r, line)
	}
}

func (f *fake) say(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, _ = os.Stdout.WriteString(strings.ReplaceAll(text, "\n", "") + "\n")
}

func (f *fake) reply(id json.RawMessage, result string) {
	f.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`)
}

func (f *fake) answer(r request, line []byte) {
	switch r.Method {
	case "initialize":
		var p struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(r.Params, &p)
		f.reply(r.ID, `{"protocolVersion":"`+p.ProtocolVersion+`","capabilities":{"tools":{"listChanged":true},"resources":{},"prompts":{}},"serverInfo":{"name":"fake","version":"1"},"instructions":"be kind"}`)
	case "tools/list":
		f.list(r)
	case "tools/call":
		f.call(r, line)
	case "resources/list", "prompts/get":
		f.reply(r.ID, `{"seen":`+string(r.Params)+`}`)
	case "notifications/cancelled":
		_ = os.WriteFile(os.Getenv("CANCEL_FILE"), line, 0o600)
	}
}

func (f *fake) list(r request) {
	switch f.kind {
	case "endless":
		f.mu.Lock()
		f.page++
		page := f.page
		f.mu.Unlock()
		f.reply(r.ID, fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"c%d"}`, page, page))
	case "circle":
		f.mu.Lock()
		f.page++
		page := f.page
		f.mu.Unlock()
		f.reply(r.ID, fmt.Sprintf(`{"tools":[{"name":"t%d","inputSchema":{"type":"object"}}],"nextCursor":"same"}`, page))
	case "weird":
		f.reply(r.ID, `{"tools":[{"name":"none"},{"name":"null","inputSchema":null},{"name":"text","inputSchema":"x"},{"name":"list","inputSchema":[1]},
			{"name":"out","inputSchema":{},"outputSchema":5},{"name":5},{"name":""},"no object",{"name":"none"},{"name":"größe ☂","title":7,"description":[1]}]}`+"")
	case "many":
		var b strings.Builder
		for i := range 50 {
			fmt.Fprintf(&b, `,{"name":"t%d","description":"%s","inputSchema":{}}`, i, strings.Repeat("d", 100))
		}
		f.reply(r.ID, `{"tools":[`+b.String()[1:]+`]}`)
	case "toolless":
		f.say(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32601,"message":"no such method"}}`)
	case "trusted":
		description := "first"
		if b, err := os.ReadFile(os.Getenv("DESCRIPTION_FILE")); err == nil {
			description = string(b)
		}
		f.reply(r.ID, `{"tools":[{"name":"echo","description":"`+description+`","inputSchema":{"type":"object","properties":{"a":{},"b":{}}}},
			{"name":"same","inputSchema":{"type":"object"}}]}`)
	default:
		f.mu.Lock()
		tool := f.tool
		f.mu.Unlock()
		f.reply(r.ID, `{"tools":[{"name":"echo","title":"Echo","description":"`+tool+`","inputSchema":{"type":"object","properties":{"n":{"const":9007199254740993}}},"outputSchema":{"type":"object"}},
			{"name":"other","inputSchema":{"type":"object"}}]}`)
	}
}

func (f *fake) call(r request, line []byte) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(r.Params, &p)
	var what string
	var a struct {
		Do string `json:"do"`
	}
	if json.Unmarshal(p.Arguments, &a) == nil {
		what = a.Do
	}
	switch what {
	case "hang":
	case "die":
		os.Exit(7)
	case "fail":
		f.say(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"error":{"code":-32000,"message":"out of paper","data":{"n":9007199254740993}}}`)
	case "huge":
		f.say(`{"jsonrpc":"2.0","id":` + string(r.ID) + `,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", 3<<20) + `"}]}}`)
	case "null":
		f.reply(r.ID, "null")
	case "twice":
		f.reply(r.ID, `{"content":[],"n":1}`)
		f.reply(r.ID, `{"content":[],"n":2}`)
		f.reply(json.RawMessage("123456789"), `{}`)
	case "junk":
		f.say("warning: something")
		f.reply(r.ID, `{"content":[]}`)
	case "deaf":
		time.Sleep(time.Hour)
	case "progress":
		f.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(p.Meta.Token) + `,"progress":1,"message":"half"}}`)
		f.reply(r.ID, `{"content":[]}`)
	case "change":
		f.mu.Lock()
		f.tool = "changed"
		f.mu.Unlock()
		f.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		f.reply(r.ID, `{"content":[]}`)
	case "env":
		env, _ := json.Marshal(os.Environ())
		f.reply(r.ID, `{"content":[],"env":`+string(env)+`}`)
	case "odd":
		f.reply(r.ID, `{"content":[{"type":"hologram","data":1.0}], "structuredContent":{"id":9007199254740993,"x":1e400},"_meta":{"m":4611686018427387905},"isError":true,"unknown":{"a":[1.0, 2]}}`)
	default:
		f.reply(r.ID, `{"content":[{"type":"text","text":`+strconv.Quote(string(p.Arguments))+`}]}`)
	}
	_ = line
}
