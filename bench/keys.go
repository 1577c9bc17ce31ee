package bench

import (
	"crypto/rand"
	"encoding/hex"
)

// keyLength is that of every key: an UUID with a prefix is about as long.
const keyLength = 40

// benchKey is a key as it stands in a request.
type benchKey [keyLength]byte

// keySpace makes keys that no other run makes: bench-, 16 hex digits of their
// own, and the name of the run. Those digits are spread over the whole range as
// those of random keys are, so that keys do not arrive in order.
type keySpace struct{ run [keyLength - 23]byte }

func newKeySpace() *keySpace {
	s := &keySpace{}
	copy(s.run[:], rand.Text())
	return s
}

// put writes the key that is number n of a client into k.
func (s *keySpace) put(k *benchKey, client int, n uint64) {
	copy(k[:], "bench-")
	// The steps of splitmix64 can be undone, so different numbers stay different.
	x := uint64(client)<<40 | n&(1<<40-1)
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	var raw [8]byte
	for i := range raw {
		raw[i] = byte(x >> (56 - 8*i))
	}
	hex.Encode(k[6:22], raw[:])
	k[22] = '-'
	copy(k[23:], s.run[:])
}
