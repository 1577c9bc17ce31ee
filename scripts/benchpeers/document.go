package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// The document holds blocks that a run has written. Each says in its first line
// what it hashes to, so that one that was changed by hand is found.

var blockPattern = regexp.MustCompile(`(?s)<!-- bench (\w+) ([0-9a-f]{16}): written by the command, do not edit -->\n(.*?)<!-- /bench -->`)

func block(name, body string) string {
	return fmt.Sprintf("<!-- bench %s %s: written by the command, do not edit -->\n%s<!-- /bench -->", name, blockSum(name, body), body)
}

func blockSum(name, body string) string {
	sum := sha256.Sum256([]byte(name + "\n" + body))
	return hex.EncodeToString(sum[:8])
}

// intoDocument puts body in the place of the block of that name, which must be
// there.
func intoDocument(document, name, body string) (string, error) {
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

// checkDocument tells which block is not as a run wrote it, and gives the names
// of all.
func checkDocument(document string) (names []string, err error) {
	for _, m := range blockPattern.FindAllStringSubmatch(document, -1) {
		names = append(names, m[1])
		if blockSum(m[1], m[3]) != m[2] {
			return names, fmt.Errorf("the block %q was changed by hand: run scripts/bench.sh again and let it write", m[1])
		}
	}
	if n := strings.Count(document, "<!-- bench "); n != len(names) {
		return names, fmt.Errorf("%d blocks begin, %d are whole", n, len(names))
	}
	return names, nil
}
