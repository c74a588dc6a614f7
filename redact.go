package cellblock

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
)

// masked stands where a secret was.
const masked = "[masked]"

// secretKeys are parts of the names of fields that hold secrets.
var secretKeys = []string{"authorization", "apikey", "token", "secret", "password", "passwd", "credential", "cookie", "privatekey"}

// secretText finds what looks like a key or a token inside a text.
var secretText = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}|\b(sk|pk|rk|xox[abprs]|gh[pousr]|glpat|AKIA|AIza)[-_]?[A-Za-z0-9_-]{16,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*`)

// redact returns JSON, or any text, without what looks like a secret.
func redact(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var tree any
	if dec.Decode(&tree) != nil || dec.More() {
		return redactText(string(raw))
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(redactTree(tree)) != nil {
		return masked
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func redactText(s string) string { return secretText.ReplaceAllString(s, masked) }

// redactTree masks in a tree of JSON values. Decoding bounds its depth.
func redactTree(v any) any {
	switch v := v.(type) {
	case string:
		return redactText(v)
	case []any:
		for i := range v {
			v[i] = redactTree(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if _, isText := value.(string); isText && isSecretKey(key) {
				v[key] = masked
			} else {
				v[key] = redactTree(value)
			}
		}
	}
	return v
}

func isSecretKey(key string) bool {
	key = strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(key))
	for _, part := range secretKeys {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}
