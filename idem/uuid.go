package idem

// BirthOfUUIDv7 gives the time at which a key was made, in milliseconds since
// the Unix epoch, when the key is exactly a UUIDv7 in its canonical spelling of
// RFC 9562: 36 characters, hyphens at 8, 13, 18 and 23, version 7, variant 10,
// hexadecimal digits of either case. A key that only contains one has no birth
// time: what the rest of it means is not ours to guess. The value is what the
// key says, 0 to 2^48-1; nobody vouches for the clock that wrote it.
func BirthOfUUIDv7(key string) (unixMilli int64, ok bool) {
	if len(key) != 36 || key[14] != '7' {
		return 0, false
	}
	for i := range len(key) {
		switch i {
		case 8, 13, 18, 23:
			if key[i] != '-' {
				return 0, false
			}
			continue
		}
		digit, ok := hexDigit(key[i])
		if !ok || (i == 19 && digit>>2 != 0b10) {
			return 0, false
		}
		if i < 13 {
			unixMilli = unixMilli<<4 | int64(digit)
		}
	}
	return unixMilli, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
