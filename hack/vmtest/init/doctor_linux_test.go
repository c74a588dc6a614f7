package main

import (
	"strings"
	"testing"
)

func TestDoctored(t *testing.T) {
	const good = `time=now level=INFO msg="a line of the log"
{"ok":true,"walls":[{"wall":"cgroup","status":"standing"},{"wall":"cpu","status":"standing"},{"wall":"memory","status":"standing"},` +
		`{"wall":"slot-uid","status":"waived"},{"wall":"mdwe","status":"waived"},{"wall":"speculation","status":"not available"},{"wall":"core-sched","status":"standing"}]}
`
	if err := doctored(user, good); err != nil {
		t.Errorf("good: %v", err)
	}
	for name, tc := range map[string]struct{ from, to, want string }{
		"nothing":        {good, "", "read what the doctor says"},
		"cut":            {"]}", "", "read what the doctor says"},
		"refused":        {`"ok":true`, `"ok":false,"error":"no","waive":["cpu"]`, "nothing starts"},
		"waived group":   {`"cgroup","status":"standing"`, `"cgroup","status":"waived"`, `the wall cgroup is "waived"`},
		"lacking group":  {`"cgroup"`, `"other"`, `nothing of ["cgroup"]`},
		"absent":         {`"cpu","status":"standing"`, `"cpu","status":"not available"`, "the wall cpu"},
		"missing":        {`"core-sched","status":"standing"`, `"core-sched","status":"missing"`, "the wall core-sched"},
		"needless waive": {`"mdwe","status":"waived"`, `"mdwe","status":"standing"`, "the wall mdwe"},
	} {
		err := doctored(user, strings.Replace(good, tc.from, tc.to, 1))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if err := doctored(root, good); err == nil || !strings.Contains(err.Error(), "the wall slot-uid") {
		t.Errorf("root without a user of its own: %v", err)
	}
}
