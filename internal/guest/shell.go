package guest

import (
	"bytes"
	"regexp"
	"strings"
	"sync"

	"github.com/cellblock-dev/cellblock/ipc"
)

// shellWords are commands that people and models type into a shell. Only text
// that is no program is compared with them, so a word may be an identifier
// elsewhere.
const shellWords = " alias apk apt apt-get awk base64 basename bash brew bun cargo cat cd chgrp chmod chown" +
	" clear cmake composer cp crontab curl cut date dd deno df diff dig dirname dnf docker du echo egrep env" +
	" exec fgrep file find free git go gradle grep groups gunzip gzip head history host" +
	" hostname htop id ifconfig install ip java jobs journalctl jq kill killall kubectl less ln locate ls lsof" +
	" make man md5sum mkdir mktemp more mount mv mvn mysql nano nc netstat node npm npx nslookup open" +
	" openssl passwd patch perl pgrep php ping pip pip3 pkill pnpm podman poetry printenv printf ps psql pwd" +
	" pytest python python3 read readlink realpath redis-cli rm rmdir rsync ruby rustc scp sed seq service set" +
	" sh sha256sum shutdown sleep sort source split sqlite3 ssh stat strings su sudo systemctl tail tar tee" +
	" telnet terraform test time timeout top touch tr tree tsc ulimit umount uname uniq unset unzip" +
	" uptime useradd uv vi vim wc wget which who whoami xargs xxd yarn yq yum zip zsh "

var (
	// shellPrompt is a line that can only be meant for a shell.
	shellPrompt = lazily(`^(?:[$#%>] +\S|#!\s*/|\./\S|~/\S|\.\./\S|/(?:usr|bin|etc|opt|home|tmp|var)/\S*(?:\s|$)|[A-Z_][A-Z0-9_]*=\S* +[a-z]|export [A-Za-z_]\w*=)`)
	// shellOption is a word with an option after it.
	shellOption = lazily(`^[a-z][\w-]*(?: +[\w./:@-]+)* +--?[A-Za-z][\w-]*(?:[ =]|$)`)
)

// lazily compiles an expression when it is needed: most workers never do.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// looksLikeShell says whether text that is no program is a shell command. Its
// first line that is not blank and no comment decides.
func looksLikeShell(source []byte) bool {
	for raw := range bytes.Lines(source) {
		line := strings.TrimSpace(string(raw[:min(len(raw), 1024)]))
		if line == "" || strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "#!") && !strings.HasPrefix(line, "# ") {
			continue
		}
		if shellPrompt().MatchString(line) {
			return true
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		if isShellCommand(line) {
			return true
		}
		return shellOption().MatchString(line)
	}
	return false
}

// isShellCommand says whether a line is a known command, with arguments or
// without. What looks like the rest of an expression is no argument.
func isShellCommand(line string) bool {
	end := strings.IndexFunc(line, func(r rune) bool { return strings.ContainsRune(" \t;|&<>(){}=", r) })
	if end < 0 {
		end = len(line)
	}
	if end == 0 || !strings.Contains(shellWords, " "+line[:end]+" ") {
		return false
	}
	rest := strings.TrimSpace(line[end:])
	if rest == "" || strings.ContainsRune(";|&>", rune(rest[0])) {
		return true
	}
	if end == len(line) || line[end] != ' ' && line[end] != '\t' || strings.ContainsRune("=({[,:?", rune(rest[0])) {
		return false
	}
	// An operator stands alone, an option or a path does not.
	return !strings.ContainsRune("+-*/%<", rune(rest[0])) || len(rest) > 1 && rest[1] != ' ' && rest[1] != '='
}

func shellRefusal() *Refusal {
	return &Refusal{
		Failure: ipc.FailShell,
		Message: "this is a shell command; code mode cells are JavaScript or TypeScript programs and there is no shell. " +
			`To run a command, find a tool that does with await tools.search("shell") and call it.`,
	}
}
