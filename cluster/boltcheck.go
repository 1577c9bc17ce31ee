package cluster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
)

// bbolt trusts its file. On a damaged one it panics, in part on goroutines of
// its own where nothing can recover it (bbolt#446, #325, #335), or quietly takes
// the older of its two meta pages and so forgets the last transaction, which may
// be a vote. So the file is walked here first, without mapping it: both meta
// pages, every reachable page, the order of keys. What the values say is the
// affair of the stores above, which keep checksums.

const (
	boltMagic      = 0xED0CDAED
	boltVersion    = 2
	boltHeader     = 16 // page header; also the size of one element and of a bucket
	boltNoFreelist = ^uint64(0)

	boltBranch, boltLeaf, boltFreelist = 0x01, 0x02, 0x10
)

// indexRange is a run of log indexes without a gap, both ends included.
type indexRange struct{ first, last uint64 }

// boltContents is what checkBolt found.
type boltContents struct {
	logs []indexRange
	conf []string
}

type boltMeta struct {
	pageSize             uint32
	root, freelist, hwm  uint64
	txid                 uint64
	magic, version, flag uint32
}

type boltChecker struct {
	file  *os.File
	size  int64
	meta  boltMeta
	pages []bool // seen, by page id
	found boltContents
}

// checkBolt tells whether the raft.db at path is whole, and what is in it. A
// missing or empty file is: bbolt makes a new one of it.
func checkBolt(path string) (boltContents, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return boltContents{}, nil
	}
	if err != nil {
		return boltContents{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return boltContents{}, err
	}
	c := &boltChecker{file: f, size: st.Size()}
	if err := c.readMetas(); err != nil {
		return boltContents{}, err
	}
	// bbolt grows the file before it raises the high water mark.
	if uint64(c.size)/uint64(c.meta.pageSize) < c.meta.hwm {
		return boltContents{}, fmt.Errorf("it was cut off: %d bytes of at least %d pages of %d", c.size, c.meta.hwm, c.meta.pageSize)
	}
	c.pages = make([]bool, c.meta.hwm)
	if err := c.tree(c.meta.root, nil, nil, 0, c.bucket); err != nil {
		return boltContents{}, err
	}
	return c.found, c.freelist()
}

// readMetas wants both meta pages: falling back to the older one, as bbolt does,
// would take back the last transaction. A meta fits one disk sector, so a crash
// does not tear it.
func (c *boltChecker) readMetas() error {
	m0, err := c.readMeta(0)
	if err != nil {
		return fmt.Errorf("meta page 0: %w", err)
	}
	m1, err := c.readMeta(int64(m0.pageSize))
	if err != nil {
		return fmt.Errorf("meta page 1: %w", err)
	}
	if m0.pageSize != m1.pageSize {
		return errors.New("the meta pages differ in page size")
	}
	c.meta = m0
	if m1.txid > m0.txid {
		c.meta = m1
	}
	if c.meta.hwm < 4 || c.meta.root < 2 || c.meta.root >= c.meta.hwm {
		return errors.New("meta page: root out of bounds")
	}
	return nil
}

func (c *boltChecker) readMeta(offset int64) (m boltMeta, err error) {
	var b [64]byte
	if _, err := c.file.ReadAt(b[:], offset+boltHeader); err != nil {
		return m, errors.New("it was cut off")
	}
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	h := fnv.New64a()
	_, _ = h.Write(b[:56])
	m = boltMeta{
		magic: u32(b[0:]), version: u32(b[4:]), pageSize: u32(b[8:]), flag: u32(b[12:]),
		root: u64(b[16:]), freelist: u64(b[32:]), hwm: u64(b[40:]), txid: u64(b[48:]),
	}
	if m.magic != boltMagic || m.version != boltVersion || h.Sum64() != u64(b[56:]) {
		return m, errors.New("wrong mark or checksum")
	}
	if m.pageSize < 512 || m.pageSize > 1<<16 || m.pageSize&(m.pageSize-1) != 0 {
		return m, fmt.Errorf("page size %d", m.pageSize)
	}
	return m, nil
}

// boltPage is one page with its overflow, or the inline page of a small bucket.
type boltPage struct {
	data  []byte
	flags uint16
	count int
}

// page reads a page and claims it: no page may be reached twice.
func (c *boltChecker) page(id uint64) (boltPage, error) {
	if id < 2 || id >= c.meta.hwm {
		return boltPage{}, fmt.Errorf("page %d is out of bounds", id)
	}
	var h [boltHeader]byte
	size := int64(c.meta.pageSize)
	if _, err := c.file.ReadAt(h[:], int64(id)*size); err != nil {
		return boltPage{}, fmt.Errorf("page %d: %w", id, err)
	}
	if got := binary.NativeEndian.Uint64(h[:]); got != id {
		return boltPage{}, fmt.Errorf("page %d calls itself %d", id, got)
	}
	n := uint64(binary.NativeEndian.Uint32(h[12:])) + 1
	if id+n > c.meta.hwm {
		return boltPage{}, fmt.Errorf("page %d goes out of bounds", id)
	}
	for i := id; i < id+n; i++ {
		if c.pages[i] {
			return boltPage{}, fmt.Errorf("page %d is used twice", i)
		}
		c.pages[i] = true
	}
	data := make([]byte, int64(n)*size)
	if _, err := c.file.ReadAt(data, int64(id)*size); err != nil {
		return boltPage{}, fmt.Errorf("page %d: %w", id, err)
	}
	return parseBoltPage(data), nil
}

func parseBoltPage(data []byte) boltPage {
	return boltPage{data, binary.NativeEndian.Uint16(data[8:]), int(binary.NativeEndian.Uint16(data[10:]))}
}

// element gives key and rest of element i: the value of a leaf's, the child page
// of a branch's.
func (p boltPage) element(i int) (key, value []byte, child uint64, isBucket bool, err error) {
	at, end := boltHeader*(i+1), boltHeader*(p.count+1)
	if end > len(p.data) {
		return nil, nil, 0, false, errors.New("more elements than fit its page")
	}
	e := p.data[at : at+boltHeader]
	u32 := func(o int) uint64 { return uint64(binary.NativeEndian.Uint32(e[o:])) }
	var flags, pos, ksize, vsize uint64
	if p.flags == boltBranch {
		pos, ksize, child = u32(0), u32(4), binary.NativeEndian.Uint64(e[8:])
	} else {
		flags, pos, ksize, vsize = u32(0), u32(4), u32(8), u32(12)
	}
	from := uint64(at) + pos
	if flags > 1 || ksize == 0 || from < uint64(end) || from+ksize+vsize > uint64(len(p.data)) {
		return nil, nil, 0, false, errors.New("element out of bounds")
	}
	key, value = p.data[from:from+ksize], p.data[from+ksize:from+ksize+vsize]
	return key, value, child, flags == 1, nil
}

type boltVisit func(key, value []byte, isBucket bool) error

// tree walks the pages under id; keys must be in [least, under) and rise.
func (c *boltChecker) tree(id uint64, least, under []byte, depth int, visit boltVisit) error {
	p, err := c.page(id)
	if err != nil {
		return err
	}
	if depth > 32 || (p.flags == boltBranch && p.count == 0) {
		return fmt.Errorf("page %d: not a tree", id)
	}
	if err := c.elements(p, least, under, depth, visit); err != nil {
		return fmt.Errorf("page %d: %w", id, err)
	}
	return nil
}

func (c *boltChecker) elements(p boltPage, least, under []byte, depth int, visit boltVisit) error {
	if p.flags != boltBranch && p.flags != boltLeaf {
		return fmt.Errorf("neither branch nor leaf (%#x)", p.flags)
	}
	previous := least
	for i := range p.count {
		key, value, child, isBucket, err := p.element(i)
		if err != nil {
			return err
		}
		order := bytes.Compare(previous, key)
		if (previous != nil && (order > 0 || (i > 0 && order == 0))) || (under != nil && bytes.Compare(key, under) >= 0) {
			return errors.New("keys out of order")
		}
		previous = key
		if p.flags == boltLeaf {
			err = visit(key, value, isBucket)
		} else {
			next := under
			if i+1 < p.count {
				if next, _, _, _, err = p.element(i + 1); err != nil {
					return err
				}
			}
			err = c.tree(child, key, next, depth+1, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// bucket visits the elements of the root: the two buckets of raft-boltdb.
func (c *boltChecker) bucket(key, value []byte, isBucket bool) error {
	visit := map[string]boltVisit{"conf": c.confKey, "logs": c.logKey}[string(key)]
	if visit == nil || !isBucket || len(value) < boltHeader {
		return fmt.Errorf("%q is not a bucket of this format", key)
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, 0, visit)
	}
	inline := value[boltHeader:]
	if len(inline) < boltHeader {
		return fmt.Errorf("bucket %q was cut off", key)
	}
	p := parseBoltPage(inline)
	if p.flags != boltLeaf {
		return fmt.Errorf("bucket %q is not a leaf", key)
	}
	return c.elements(p, nil, nil, 0, visit)
}

func (c *boltChecker) confKey(key, _ []byte, isBucket bool) error {
	if isBucket || !slices.Contains(stableKeys, string(key)) {
		return fmt.Errorf("%q is not a setting of raft", key)
	}
	c.found.conf = append(c.found.conf, string(key))
	return nil
}

func (c *boltChecker) logKey(key, _ []byte, isBucket bool) error {
	if isBucket || len(key) != 8 {
		return errors.New("not a log index")
	}
	i := binary.BigEndian.Uint64(key)
	if n := len(c.found.logs); n > 0 && c.found.logs[n-1].last+1 == i {
		c.found.logs[n-1].last = i
		return nil
	}
	c.found.logs = append(c.found.logs, indexRange{i, i})
	return nil
}

// freelist checks the list of free pages if there is one: a file that was just
// made has it, later ones do not (NoFreelistSync).
func (c *boltChecker) freelist() error {
	if c.meta.freelist == boltNoFreelist {
		return nil
	}
	p, err := c.page(c.meta.freelist)
	if err != nil {
		return fmt.Errorf("freelist: %w", err)
	}
	if p.flags != boltFreelist || p.count == 0xFFFF || boltHeader+8*p.count > len(p.data) {
		return errors.New("freelist: not one")
	}
	for i := range p.count {
		id := binary.NativeEndian.Uint64(p.data[boltHeader+8*i:])
		if id < 2 || id >= c.meta.hwm || c.pages[id] {
			return fmt.Errorf("freelist: page %d is not free", id)
		}
		c.pages[id] = true
	}
	return nil
}
