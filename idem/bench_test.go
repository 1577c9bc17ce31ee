package idem

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	smallRequest = jsontext.Value(`{"from":"acct_1001","to":"acct_7094","amount":86351,"currency":"EUR","meta":{"invoice":"2026-0001","rate":1.0825}}`)
	largeRequest = jsontext.Value(`{"items":[` + strings.Repeat(string(smallRequest)+",", 500) + `null]}`)
)

func BenchmarkCheckKey(b *testing.B) {
	for _, key := range []string{"order-2026:0001", "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", strings.Repeat("k", 256)} {
		b.Run(key[:8], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := CheckKey(key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHeaderKey(b *testing.B) {
	b.ReportAllocs()
	values := []string{`"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"`}
	for b.Loop() {
		if _, _, err := HeaderKey(values); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	benchmarkJSON(b, func(v jsontext.Value) *Error {
		_, err := Digest(v)
		return err
	})
}

func BenchmarkCanonical(b *testing.B) {
	benchmarkJSON(b, func(v jsontext.Value) *Error {
		_, err := Canonical(v)
		return err
	})
}

func BenchmarkRedact(b *testing.B) {
	benchmarkJSON(b, func(v jsontext.Value) *Error {
		_, _, err := Redact(v)
		return err
	})
}

func benchmarkJSON(b *testing.B, f func(jsontext.Value) *Error) {
	for name, v := range map[string]jsontext.Value{"small": smallRequest, "large": largeRequest} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(v)))
			for b.Loop() {
				if err := f(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	body := []byte(`{"key":"order-2026:0001","operation":"wallet.pay","attemptId":"0123456789abcdef","lease":"30s","request":` + string(smallRequest) + `}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var r ReserveRequest
		if err := Unmarshal(body, &r); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFingerprint(b *testing.B) {
	f := &Fingerprint{Kind: "trade", Exchange: "binance", Symbol: "BTCUSDT", Action: "buy", Quantity: jsontext.Value("0.5"), Mode: "live"}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Form(); err != nil {
			b.Fatal(err)
		}
	}
}
