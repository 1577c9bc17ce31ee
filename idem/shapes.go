package idem

import "bytes"

// secretNames are the member names of semantics.md section 8, in lower case and
// without "_" and "-".
var secretNames = map[string]bool{
	"password":      true,
	"passwd":        true,
	"secret":        true,
	"clientsecret":  true,
	"apikey":        true,
	"accesstoken":   true,
	"refreshtoken":  true,
	"privatekey":    true,
	"authorization": true,
	"cookie":        true,
	"mnemonic":      true,
	"seed":          true,
}

// longestSecretName is the length of "authorization".
const longestSecretName = 13

// secretName tells whether a member name is, whole, one of the secret names, in
// any case of its ASCII letters and with or without "_" and "-".
func secretName(name []byte) bool {
	var folded [longestSecretName]byte
	n := 0
	for _, c := range name {
		if c == '_' || c == '-' {
			continue
		}
		if n == longestSecretName {
			return false
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		folded[n] = c
		n++
	}
	return secretNames[string(folded[:n])]
}

var (
	base32Bytes = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
	awsBytes    = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	wordBytes   = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
	base64Bytes = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
	labelBytes  = byteSet("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ")
)

// secretShape tells whether text is or contains one of these, beginning where
// no letter or digit stands before it:
//
//	PEM private key      -----BEGIN ... PRIVATE KEY-----
//	JWT                  eyJ... . ... . ... (base64url, the last may be empty)
//	AWS access key id    AKIA and 16 of A-Z 0-9, then no letter or digit
//	GitHub token         gh, a lower-case letter, _ and at least 16 letters or digits
//	Stripe secret key    sk_live_ or sk_test_ and at least one letter or digit
//	Stellar secret seed  S and 55 of base32 (A-Z 2-7), then no letter or digit
//
// The lengths and edges keep ordinary text: a sentence that begins with S, an
// address that begins with G, a longer base32 blob.
func secretShape(text []byte) bool {
	for i := 0; i < len(text); i++ {
		var found bool
		switch rest := text[i:]; rest[0] {
		case '-':
			found = isPEM(rest)
		case 'e':
			found = edgeBefore(text, i) && isJWT(rest)
		case 'A':
			found = edgeBefore(text, i) && bytes.HasPrefix(rest, []byte("AKIA")) && run(rest[4:], &awsBytes) == 16 && edgeAt(rest, 20)
		case 'g':
			found = edgeBefore(text, i) && isGitHub(rest)
		case 's':
			found = edgeBefore(text, i) && isStripe(rest)
		case 'S':
			found = edgeBefore(text, i) && run(rest, &base32Bytes) == 56 && edgeAt(rest, 56)
		}
		if found {
			return true
		}
	}
	return false
}

func edgeBefore(text []byte, i int) bool { return i == 0 || !wordBytes[text[i-1]] }

func edgeAt(text []byte, i int) bool { return i >= len(text) || !wordBytes[text[i]] }

// run counts the bytes at the start of text that are in set.
func run(text []byte, set *[256]bool) int {
	for i, c := range text {
		if !set[c] {
			return i
		}
	}
	return len(text)
}

func isPEM(rest []byte) bool {
	label, ok := bytes.CutPrefix(rest, []byte("-----BEGIN "))
	if !ok {
		return false
	}
	n := run(label, &labelBytes)
	label, tail := label[:n], label[n:]
	label = bytes.TrimSuffix(label, []byte(" BLOCK")) // as PGP writes it
	return bytes.HasSuffix(label, []byte("PRIVATE KEY")) && bytes.HasPrefix(tail, []byte("-----"))
}

func isJWT(rest []byte) bool {
	if !bytes.HasPrefix(rest, []byte("eyJ")) {
		return false
	}
	n := run(rest, &base64Bytes)
	if n >= len(rest) || rest[n] != '.' {
		return false
	}
	rest = rest[n+1:]
	n = run(rest, &base64Bytes)
	return n > 0 && n < len(rest) && rest[n] == '.'
}

func isGitHub(rest []byte) bool {
	return len(rest) > 4 && rest[1] == 'h' && rest[2] >= 'a' && rest[2] <= 'z' && rest[3] == '_' &&
		run(rest[4:], &wordBytes) >= 16
}

func isStripe(rest []byte) bool {
	return len(rest) > 8 && (string(rest[:8]) == "sk_live_" || string(rest[:8]) == "sk_test_") && wordBytes[rest[8]]
}
