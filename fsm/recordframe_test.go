package fsm

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/onced/onced/fsm/fsmpb"
)

// The frames written by hand are the protobuf package's, byte for byte, and
// read as it reads them.
func TestRecordFrameIsProtobuf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var p fsmpb.Record
		recordToProto(&p, anyRecord(rt))
		r := recordFromProto(&p) // spans cut to the microsecond
		recordToProto(&p, r)
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(&p)
		if err != nil {
			rt.Fatal(err)
		}
		if got := appendRecordFrame(nil, r); !bytes.Equal(got, want) {
			rt.Fatalf("%x\nprotobuf\n%x", got, want)
		}
		var got Record
		if err := readRecordFrame(want, &got); err != nil || !cmp.Equal(got, *r) {
			rt.Fatalf("%v %s", err, cmp.Diff(got, *r))
		}
	})
}

// Whatever the bytes are: what is read without reflection is what protobuf
// reads, and what protobuf refuses or does not know is refused.
func FuzzRecordFrame(f *testing.F) {
	f.Add(appendRecordFrame(nil, edgeRecord()))
	f.Add([]byte{0x0a, 1, 0xff})             // no UTF-8
	f.Add([]byte{0x28, 1, 0x28, 2})          // twice
	f.Add([]byte{0x80, 0x02, 1})             // a field of a later version
	f.Add([]byte{0x0d, 1, 2, 3, 4})          // of another kind
	f.Add([]byte{0xf2, 1, 2, 0x30, 1})       // the same in the attempt before
	f.Add([]byte{0xa2, 1, 0, 0xc2, 1, 0})    // empty response, empty path
	f.Add([]byte{0x0a, 0x81, 0x00, 'a', 10}) // a long way to say 1; cut off
	f.Fuzz(func(t *testing.T, b []byte) {
		var got Record
		if readRecordFrame(b, &got) != nil {
			return // at worst a snapshot that nobody wrote is refused
		}
		var p fsmpb.Record
		if err := decodeFrame(b, &p); err != nil {
			t.Fatalf("read what protobuf refuses: %v", err)
		}
		want := recordFromProto(&p)
		if len(want.Response) == 0 {
			want.Response, got.Response = nil, nil
		}
		if !cmp.Equal(got, *want) {
			t.Fatal(cmp.Diff(got, *want))
		}
	})
}
