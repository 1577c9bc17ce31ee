package idem

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func trade(exchange, symbol, action, quantity, mode string) *Fingerprint {
	return &Fingerprint{Kind: "trade", Exchange: exchange, Symbol: symbol, Action: action, Quantity: jsontext.Value(quantity), Mode: mode}
}

// hashed computes the middle part from the sentence of the documentation.
func hashed(list, mode string) string {
	sum := sha256.Sum256([]byte(list))
	return "trade:h:" + hex.EncodeToString(sum[:]) + ":" + mode
}

func TestFingerprintForm(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("S", 300)
	for _, tt := range []struct {
		name string
		f    *Fingerprint
		want string
	}{
		{"plain", trade("binance", "BTCUSDT", "buy", "0.5", "live"), "trade:binance:BTCUSDT:BUY:0.5:live"},
		{"test mode", trade("binance", "BTCUSDT", "buy", "0.5", "test"), "trade:binance:BTCUSDT:BUY:0.5:test"},
		{"action any case", trade("binance", "BTCUSDT", "cLosE_long", "1", "live"), "trade:binance:BTCUSDT:CLOSE_LONG:1:live"},
		{"others keep their case", trade("Binance", "btcusdt", "BUY", "1", "live"), "trade:Binance:btcusdt:BUY:1:live"},
		{"number 1.50", trade("b", "s", "BUY", "1.50", "live"), "trade:b:s:BUY:1.5:live"},
		{"number 15e-1", trade("b", "s", "BUY", " 15e-1 ", "live"), "trade:b:s:BUY:1.5:live"},
		{"number -0", trade("b", "s", "BUY", "-0", "live"), "trade:b:s:BUY:0:live"},
		{"number below 0", trade("b", "s", "BUY", "-2", "live"), "trade:b:s:BUY:-2:live"},
		{"number 1e-7", trade("b", "s", "BUY", "0.0000001", "live"), "trade:b:s:BUY:1e-7:live"},
		{"large integer, digit for digit", trade("b", "s", "BUY", "9007199254740993", "live"), "trade:b:s:BUY:9007199254740993:live"},
		{"string as it is", trade("b", "s", "BUY", `"1.50"`, "live"), "trade:b:s:BUY:1.50:live"},
		{"string with escapes", trade("b", "s", "BUY", `"\u0031.5"`, "live"), "trade:b:s:BUY:1.5:live"},
		{"slash", trade("b", "BTC/USD", "buy", "1", "live"), hashed(`["b","BTC/USD","BUY","1"]`, "live")},
		{"slash, test", trade("b", "BTC/USD", "buy", "1", "test"), hashed(`["b","BTC/USD","BUY","1"]`, "test")},
		{"colon", trade("b:c", "s", "BUY", "1", "live"), hashed(`["b:c","s","BUY","1"]`, "live")},
		{"quote", trade(`b"`, "s", "BUY", "1", "live"), hashed(`["b\"","s","BUY","1"]`, "live")},
		{"exponent with a plus", trade("b", "s", "BUY", "1e21", "live"), hashed(`["b","s","BUY","1e+21"]`, "live")},
		{"quantity in words", trade("b", "s", "BUY", `"10 %"`, "live"), hashed(`["b","s","BUY","10 %"]`, "live")},
		{"letters beyond ASCII", trade("börse", "s", "kaufen", "1", "live"), hashed(`["börse","s","KAUFEN","1"]`, "live")},
		{"only ASCII is upper-cased", trade("b", "s", "prüfen", "1", "live"), hashed(`["b","s","PRüFEN","1"]`, "live")},
		{"long", trade("b", long, "BUY", "1", "live"), hashed(`["b","`+long+`","BUY","1"]`, "live")},
	} {
		got, err := tt.f.Form()
		if err != nil || got != tt.want {
			t.Errorf("%s: %s, %v; want %s", tt.name, got, err, tt.want)
		}
		wantCode(t, tt.name+" as a key", CheckKey(got+":"+strconv.FormatInt(math.MaxInt64/60_000_000, 10)), "")
	}
}

func TestFingerprintLengthLeavesRoomForTheMinute(t *testing.T) {
	t.Parallel()
	minute := ":" + strconv.FormatInt(math.MaxInt64/60_000_000, 10) // the last of log time
	fixed := len("trade:b::BUY:1:live")
	for n := range 300 {
		symbol := strings.Repeat("s", n+1)
		form, err := trade("b", symbol, "BUY", "1", "live").Form()
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, form, CheckKey(form+minute), "")
		if plain := fixed+len(symbol) <= MaxFormLength; plain != strings.Contains(form, symbol+":") {
			t.Errorf("symbol of %d: plain %v, form %s", n+1, plain, form)
		}
	}
}

func TestFingerprintsThatMustNotMeet(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for i, f := range []*Fingerprint{
		trade("b", "s", "BUY", "1", "live"),
		trade("b", "s", "BUY", "1", "test"),
		trade("b", "s", "SELL", "1", "live"),
		trade("b", "s", "BUY", "2", "live"),
		trade("b", "s", "BUY", `"1.0"`, "live"),
		trade("s", "b", "BUY", "1", "live"),
		trade("b", "s:BUY", "1", `"x"`, "live"),
		trade("b:s", "BUY", "1", `"x"`, "live"),
		trade("b/", "s", "BUY", "1", "live"),
		trade("b", "/s", "BUY", "1", "live"),
		trade("b/", "s", "BUY", "1", "test"),
		trade("b", "s", "BUY", "9007199254740992", "live"),
		trade("b", "s", "BUY", "9007199254740993", "live"),
		trade("b", "é", "BUY", "1", "live"),
		trade("b", "e\u0301", "BUY", "1", "live"),
	} {
		form, err := f.Form()
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
		if other, taken := seen[form]; taken {
			t.Errorf("%d and %d share %s", i, other, form)
		}
		seen[form] = i
		if !strings.HasSuffix(form, ":"+f.Mode) {
			t.Errorf("%s does not show its mode", form)
		}
	}
}

func TestFingerprintRefuses(t *testing.T) {
	t.Parallel()
	otherKind := trade("b", "s", "BUY", "1", "live")
	otherKind.Kind = "transfer"
	noKind := trade("b", "s", "BUY", "1", "live")
	noKind.Kind = ""
	for member, list := range map[string][]*Fingerprint{
		"fingerprint is missing": {nil},
		"fingerprint.kind":       {otherKind, noKind, {}},
		"fingerprint.exchange":   {trade("", "s", "BUY", "1", "live"), trade("  ", "s", "BUY", "1", "live"), trade("\xff", "s", "BUY", "1", "live")},
		"fingerprint.symbol":     {trade("b", "", "BUY", "1", "live"), trade("b", "\t", "BUY", "1", "live"), trade("b", "\xed\xa0\x80", "BUY", "1", "live")},
		"fingerprint.action":     {trade("b", "s", "", "1", "live"), trade("b", "s", " ", "1", "live")},
		"fingerprint.quantity": {
			trade("b", "s", "BUY", "", "live"), trade("b", "s", "BUY", "null", "live"), trade("b", "s", "BUY", `""`, "live"),
			trade("b", "s", "BUY", `" "`, "live"), trade("b", "s", "BUY", "true", "live"), trade("b", "s", "BUY", "[1]", "live"),
			trade("b", "s", "BUY", "{}", "live"), trade("b", "s", "BUY", "1e400", "live"), trade("b", "s", "BUY", "9007199254740993.0", "live"),
			trade("b", "s", "BUY", `"\ud800"`, "live"), trade("b", "s", "BUY", "1 2", "live"), trade("b", "s", "BUY", "one", "live"),
		},
		"fingerprint.mode": {
			trade("b", "s", "BUY", "1", ""), trade("b", "s", "BUY", "1", "LIVE"), trade("b", "s", "BUY", "1", "live "),
			trade("b", "s", "BUY", "1", "paper"), trade("b/", "s", "BUY", "1", "paper"),
		},
	} {
		for _, f := range list {
			form, err := f.Form()
			wantCode(t, member, err, CodeInvalidRequest, member)
			if form != "" {
				t.Errorf("%s: %q beside an error", member, form)
			}
		}
	}
}
