package idem

import (
	"bytes"
	"math"
	"strconv"
)

// maxDigits is how many significant digits a number with a fraction or an
// exponent may have: 17 write every float64, more tell none apart any better.
const maxDigits = 17

// smallestNormal is the least float64 that has all its 53 bits.
const smallestNormal = 0x1p-1022

// numberFault tells why the canonical form cannot stand for the JSON number
// tok, or "" when it can.
//
// Integers written out are kept digit for digit and may have any size that is
// finite in a float64. A number with a fraction or an exponent goes through a
// float64 and comes out in its shortest form, so it is taken only when that
// float64, written to as many significant digits, gives the same digits again.
// Whatever a program printed from a float64 passes, %.17g included;
// 9007199254740993.0, 8.500000000000001, 0.99999999999999999 and 1e-400 do not,
// since each would get the canonical form of another number.
//
// The 17th digit of a true fraction is exempt: it lies below what a float64
// resolves, and RFC 8785 itself rounds it (333333333.33333329, its section
// 3.2.2). So two fractions can be one when only their 17th digit differs; an
// integer is never one with anything of another value.
func numberFault(tok []byte) string {
	if len(tok) <= 308 && !bytes.ContainsAny(tok, ".eE") {
		return ""
	}
	f, err := strconv.ParseFloat(string(tok), 64)
	if err != nil || math.IsInf(f, 0) {
		return "is too large for a 64-bit floating-point number: send it as a string"
	}
	if !bytes.ContainsAny(tok, ".eE") {
		return ""
	}
	digits, n := significantDigits(tok)
	if n > maxDigits {
		return "has a fraction or exponent and more than 17 significant digits: send it as a string"
	}
	if n == 0 {
		return "" // some spelling of zero
	}
	size := math.Abs(f)
	if n == maxDigits && size >= smallestNormal && size != math.Trunc(size) {
		return ""
	}
	var buf [32]byte
	again := strconv.AppendFloat(buf[:0], size, 'e', n-1, 64)
	if got, m := significantDigits(again); m != n || got != digits {
		return "is no value that a 64-bit floating-point number can hold: send it as a string"
	}
	return ""
}

// significantDigits gives the digits of a number's mantissa without leading and
// trailing zeros, and how many there are; the array holds the first 17.
func significantDigits(tok []byte) (digits [maxDigits]byte, n int) {
	zeros := 0
	for _, c := range tok {
		switch {
		case c == 'e' || c == 'E':
			return digits, n
		case c == '0':
			if n > 0 {
				zeros++
			}
		case c >= '1' && c <= '9':
			for ; zeros > 0; zeros-- {
				if n < maxDigits {
					digits[n] = '0'
				}
				n++
			}
			if n < maxDigits {
				digits[n] = c
			}
			n++
		}
	}
	return digits, n
}
