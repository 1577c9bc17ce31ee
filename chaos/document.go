package chaos

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// A document holds blocks that runs have written. Each says in its first line
// what it hashes to, so that one that was changed by hand is found.

var blockPattern = regexp.MustCompile(`(?s)<!-- chaos ([\w,-]+) ([0-9a-f]{16}): written by the command, do not edit -->\n(.*?)<!-- /chaos -->`)

func block(name, body string) string {
	return fmt.Sprintf("<!-- chaos %s %s: written by the command, do not edit -->\n%s<!-- /chaos -->", name, blockSum(name, body), body)
}

func blockSum(name, body string) string {
	sum := sha256.Sum256([]byte(name + "\n" + body))
	return hex.EncodeToString(sum[:8])
}

// IntoDocument puts a run's tables into a document, in the place of the block of
// that name; a name that the document has no block of is an error.
func IntoDocument(document, name, body string) (string, error) {
	done := false
	out := blockPattern.ReplaceAllStringFunc(document, func(old string) string {
		if blockPattern.FindStringSubmatch(old)[1] != name {
			return old
		}
		done = true
		return block(name, body)
	})
	if !done {
		return "", fmt.Errorf("the document has no block %q; begin it with:\n%s", name, block(name, ""))
	}
	return out, nil
}

// CheckDocument tells which block of a document is not as a run wrote it, and
// gives the names of all.
func CheckDocument(document string) (names []string, err error) {
	for _, m := range blockPattern.FindAllStringSubmatch(document, -1) {
		names = append(names, m[1])
		if blockSum(m[1], m[3]) != m[2] {
			return names, fmt.Errorf("the block %q was changed by hand: run scripts/chaos.sh again and let it write", m[1])
		}
	}
	if n := strings.Count(document, "<!-- chaos "); n != len(names) {
		return names, fmt.Errorf("%d blocks begin, %d are whole", n, len(names))
	}
	return names, nil
}
