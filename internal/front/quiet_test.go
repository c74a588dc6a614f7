package front

import (
	"log/slog"
	"strings"
	"testing"
)

func TestQuiet(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level]string{
		slog.LevelInfo:  "level=WARN msg=warned a=1 g.b=2",
		slog.LevelDebug: "level=DEBUG msg=told a=1 g.b=2|level=WARN msg=warned a=1 g.b=2",
	} {
		var b strings.Builder
		noTime := func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		}
		log := slog.New(quiet{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: level, ReplaceAttr: noTime})}).With("a", 1).WithGroup("g")
		log.Info("told", "b", 2)
		log.Warn("warned", "b", 2)
		if got := strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", "|"); got != want {
			t.Errorf("at %s: %s, want %s", level, got, want)
		}
	}
}
