package idem

import (
	"bytes"
	stdjson "encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// Values with the shapes of secrets, put together here so that no scanner takes
// this file for a leak; none was ever anybody's.
var (
	stellarSeed = "S" + "BCDEFGHIJKLMNOPQRSTUVWXYZ234567ABCDEFGHIJKLMNOPQRSTUVWX"
	awsKey      = "AKIA" + "IOSFODNN7EXAMPLE"
	githubToken = "ghp" + "_" + strings.Repeat("a1B2", 9)
	stripeKey   = "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
	jwt         = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl-_0"
	pemKey      = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIB\n-----END RSA PRIVATE KEY-----\n"
)

// shapeOracle says with regular expressions what the documentation says of the
// secret shapes.
var shapeOracle = regexp.MustCompile(strings.Join([]string{
	`-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----`,
	`(^|[^A-Za-z0-9])eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.`,
	`(^|[^A-Za-z0-9])AKIA[A-Z0-9]{16}([^A-Za-z0-9]|$)`,
	`(^|[^A-Za-z0-9])gh[a-z]_[A-Za-z0-9]{16}`,
	`(^|[^A-Za-z0-9])sk_(live|test)_[A-Za-z0-9]`,
	`(^|[^A-Za-z0-9])S[A-Z2-7]{55}([^A-Za-z0-9]|$)`,
}, "|"))

// nameOracle is the list of the documentation, spelled out.
var nameOracle = regexp.MustCompile(`^(password|passwd|secret|clientsecret|apikey|accesstoken|refreshtoken|privatekey|authorization|cookie|mnemonic|seed)$`)

func foldName(s string) string {
	lower := func(r rune) rune {
		switch {
		case r == '_' || r == '-':
			return -1
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}
	return strings.Map(lower, s)
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in, out string
		pointers      []string
	}{
		{"a secret member", `{"id":1,"password":"hunter2"}`, `{"id":1,"password":"[REDACTED]"}`, []string{"/password"}},
		{
			"whatever its value", `{"seed":[1,{"a":"b"}],"secret":{"x":1},"cookie":null,"api_key":1.50,"mnemonic":true,"passwd":""}`,
			`{"seed":"[REDACTED]","secret":"[REDACTED]","cookie":"[REDACTED]","api_key":"[REDACTED]","mnemonic":"[REDACTED]","passwd":"[REDACTED]"}`,
			[]string{"/seed", "/secret", "/cookie", "/api_key", "/mnemonic", "/passwd"},
		},
		{"a name written with escapes", `{"p\u0061ssword":"x"}`, `{"p\u0061ssword":"[REDACTED]"}`, []string{"/password"}},
		{"in document order, any depth", `[{"b":{"token":"` + jwt + `","a":0}},"x",{"Secret":1}]`, `[{"b":{"token":"[REDACTED]","a":0}},"x",{"Secret":"[REDACTED]"}]`, []string{"/0/b/token", "/2/Secret"}},
		{"nothing inside a redacted value", `{"secret":{"password":"` + awsKey + `"},"z":1}`, `{"secret":"[REDACTED]","z":1}`, []string{"/secret"}},
		{"a pointer is escaped", `{"a/b~c":{"Api-Key":1}}`, `{"a/b~c":{"Api-Key":"[REDACTED]"}}`, []string{"/a~1b~0c/Api-Key"}},
		{"the whole response", ` "` + stripeKey + `" `, ` "[REDACTED]" `, []string{""}},
		{"inside a sentence", `{"log":"used ` + awsKey + `, then stopped"}`, `{"log":"[REDACTED]"}`, []string{"/log"}},
		{"written with escapes", `["\u0041KIA` + awsKey[4:] + `"]`, `["[REDACTED]"]`, []string{"/0"}},
		{"with line breaks", `{"pem":"` + strings.ReplaceAll(pemKey, "\n", `\n`) + `"}`, `{"pem":"[REDACTED]"}`, []string{"/pem"}},
		{
			"everything else byte for byte", "{ \"n\" : [1.50,1E2,-0,9007199254740993,1e400] ,\n\t\"t\":\"\\u00e9\\/\", \"password\" :\t{ } , \"a\":1}",
			"{ \"n\" : [1.50,1E2,-0,9007199254740993,1e400] ,\n\t\"t\":\"\\u00e9\\/\", \"password\" :\t\"[REDACTED]\" , \"a\":1}",
			[]string{"/password"},
		},
		{"what was redacted stays so", `{"password":"[REDACTED]"}`, `{"password":"[REDACTED]"}`, []string{"/password"}},
	} {
		in := jsontext.Value(tt.in)
		out, pointers, err := Redact(in)
		if err != nil || string(out) != tt.out || !slices.Equal(pointers, tt.pointers) {
			t.Errorf("%s:\n got %s %q %v\nwant %s %q", tt.name, out, pointers, err, tt.out, tt.pointers)
		}
		if string(in) != tt.in {
			t.Errorf("%s: the input was changed", tt.name)
		}
	}
}

func TestRedactNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"password", "Password", "PASSWORD", "pass_word", "PASS-WORD", "passwd", "secret", "client_secret", "clientSecret", "Client-Secret",
		"api_key", "apiKey", "API-KEY", "apikey", "_api__key_", "access_token", "accessToken", "refresh_token", "refreshToken", "private_key",
		"privateKey", "Authorization", "Cookie", "mnemonic", "Seed",
	} {
		if _, pointers, err := Redact(jsontext.Value(`{"` + name + `":1}`)); err != nil || len(pointers) != 1 {
			t.Errorf("%s is kept: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "_", "passwords", "my_password", "password1", "pass word", "passw\u00f6rd", "secrets", "secret_name", "client", "token", "key", "api",
		"api.key", "accesstokens", "tokenid", "authorization_url", "cookies", "seeds", "seedling", "pa\u017fsword", "\u212bey", "set-cookie",
		strings.Repeat("password", 20),
	} {
		if out, pointers, err := Redact(jsontext.Value(`{"` + name + `":1}`)); err != nil || pointers != nil {
			t.Errorf("%q is lost: %s, %v", name, out, err)
		}
	}
}

func TestRedactShapes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		stellarSeed, awsKey, githubToken, stripeKey, "sk" + "_test_" + "a", jwt, strings.TrimSuffix(jwt, "c2lnbmF0dXJl-_0"), pemKey,
		githubToken[:20], "gho" + githubToken[3:], "ghu" + githubToken[3:], "ghs" + githubToken[3:], "ghr" + githubToken[3:],
		"-----BEGIN " + "PRIVATE KEY-----", "-----BEGIN " + "EC PRIVATE KEY-----", "-----BEGIN " + "OPENSSH PRIVATE KEY-----",
		"-----BEGIN " + "ENCRYPTED PRIVATE KEY-----", "-----BEGIN " + "PGP PRIVATE KEY BLOCK-----", "----------BEGIN " + "PRIVATE KEY-----",
	} {
		for _, around := range [][2]string{{"", ""}, {" ", " "}, {"Bearer ", ""}, {"key=", "&x=1"}, {"(", ")"}, {"é", "é"}, {"_", ""}, {"S", " "}, {"a.", "."}} {
			s := around[0] + text + around[1]
			if around[0] == "S" && !strings.HasPrefix(text, "-") {
				continue // glued to a letter: not an edge
			}
			if !shapeOracle.MatchString(s) {
				t.Errorf("the oracle keeps %q", s)
			}
			quoted, _ := jsontext.AppendQuote(nil, s)
			out, pointers, err := Redact(quoted)
			if err != nil || string(out) != Redacted || len(pointers) != 1 {
				t.Errorf("%q is kept: %s, %v", s, out, err)
			}
		}
	}
}

// TestRedactLosesNoOrdinaryText holds the last line of semantics.md section 10:
// any text starting with S or M must not be lost.
func TestRedactLosesNoOrdinaryText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "S", "M", "Settled", "Market order filled", "SELL", "MARKET", "SBUX", "Some text that starts with S and is longer than fifty-six characters",
		"SOMETHING THAT IS WRITTEN IN CAPITALS AND GOES ON FOR QUITE A WHILE, REALLY",
		stellarSeed[:55], stellarSeed + "A", "A" + stellarSeed, stellarSeed + "8", strings.ToLower(stellarSeed), strings.Replace(stellarSeed, "A", "1", 1),
		"G" + stellarSeed[1:], "M" + stellarSeed[1:], // Stellar addresses are public
		"SHA256", strings.Repeat("S", 64), "S" + strings.Repeat("2345ABCD", 8),
		awsKey[:19], awsKey + "A", awsKey + "a", "x" + awsKey, strings.ToLower(awsKey), "AKIA", "AKIATHAT",
		githubToken[:19], "gh_" + githubToken[4:], "ghx", "ghi_jklmnop", "weigh" + githubToken[2:], "ghs_installation_id_of_the_app",
		"sk" + "_live_", "sk" + "_live_...", "task" + "_live_1", "pk" + "_live_4eC39HqLyjWDarjtT1zdp7dc", "sk_liver",
		"eyJ", "eyJhbGciOiJIUzI1NiJ9", "eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJIUzI1NiJ9..", "heyJude.is.a.song", "eye.ball.s", "version 1.2.3",
		"-----BEGIN CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----", "BEGIN PRIVATE KEY", "-----BEGIN RSA PRIVATE KEY", "---- PRIVATE KEY-----",
		"the password is in the vault", "secret", "Bearer", "550e8400-e29b-41d4-a716-446655440000", strings.Repeat("-", 100),
	} {
		if shapeOracle.MatchString(text) {
			t.Errorf("the oracle loses %q", text)
		}
		quoted, _ := jsontext.AppendQuote(nil, text)
		in := jsontext.Value(`{"text":` + string(quoted) + `}`)
		out, pointers, err := Redact(in)
		if err != nil || !bytes.Equal(out, in) || pointers != nil {
			t.Errorf("%q is lost: %s %q %v", text, out, pointers, err)
		}
	}
	// Names are kept even when they look like a secret.
	in := jsontext.Value(`{"` + awsKey + `":1}`)
	if out, pointers, err := Redact(in); err != nil || !bytes.Equal(out, in) || pointers != nil {
		t.Errorf("a name was changed: %s %q %v", out, pointers, err)
	}
}

func TestRedactRefuses(t *testing.T) {
	t.Parallel()
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for in, part := range map[string]string{
		"":                             "empty",
		"{":                            "too early",
		`{"password":`:                 "too early",
		`{"password":}`:                "well-formed",
		"1 2":                          "after its end",
		`"a" "b"`:                      "after its end",
		`{} x`:                         "after its end",
		`{"password":1,"password":2}`:  "/password more than once",
		`["\ud800"]`:                   "/0",
		"[\"\xff\"]":                   "UTF-8",
		`{"password":"\ud800"}`:        "/password",
		nest(65):                       "deeper than 64",
		`{"secret":` + nest(64) + `}`:  "deeper than 64",
		`[{"secret":` + nest(63) + `}`: "deeper than 64",
	} {
		out, pointers, err := Redact(jsontext.Value(in))
		wantCode(t, cut(in), err, CodeInvalidRequest, "response", part)
		if out != nil || pointers != nil {
			t.Errorf("%s: a result beside an error", cut(in))
		}
	}
	for _, in := range []string{nest(64), `{"secret":` + nest(63) + `}`} {
		if _, _, err := Redact(jsontext.Value(in)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
}

// checkRedacted holds a redaction against its promises with the standard
// library's decoder and the regular expressions.
func checkRedacted(t *testing.T, in, out jsontext.Value, pointers []string) {
	t.Helper()
	if len(pointers) == 0 && !bytes.Equal(in, out) {
		t.Fatalf("nothing was redacted and %q became %q", in, out)
	}
	var before, after any
	if err := stdjson.Unmarshal(in, &before); err != nil {
		return // beyond what the standard library reads (1e400)
	}
	if err := stdjson.Unmarshal(out, &after); err != nil {
		t.Fatalf("%q became %q: %v", in, out, err)
	}
	redacted := 0
	var walk func(before, after any, name string, named bool)
	walk = func(before, after any, name string, named bool) {
		text, isText := before.(string)
		if named && nameOracle.MatchString(foldName(name)) || isText && shapeOracle.MatchString(text) {
			redacted++
			if after != "[REDACTED]" {
				t.Fatalf("%q: %v survives in %q", in, before, out)
			}
			return
		}
		switch before := before.(type) {
		case map[string]any:
			object, _ := after.(map[string]any)
			if len(object) != len(before) {
				t.Fatalf("%q became %q", in, out)
			}
			for name, v := range before {
				walk(v, object[name], name, true)
			}
		case []any:
			list, _ := after.([]any)
			if len(list) != len(before) {
				t.Fatalf("%q became %q", in, out)
			}
			for i, v := range before {
				walk(v, list[i], "", false)
			}
		default:
			if before != after {
				t.Fatalf("%q became %q: %v is lost", in, out, before)
			}
		}
	}
	walk(before, after, "", false)
	if redacted != len(pointers) {
		t.Fatalf("%q: %d values to redact, %d pointers %q", in, redacted, len(pointers), pointers)
	}
}
