package main

import (
	"strconv"
	"strings"
)

// quote puts s in double quotes, escaped: what users typed may hold anything.
func quote(s string) string { return strconv.Quote(s) }

// nearest gives the word of known that s was most likely meant to be, "" when
// none is near.
func nearest(s string, known []string) string {
	s = strings.ToLower(strings.ReplaceAll(s, "_", "-"))
	best, bestDistance := "", 1+len(s)/3
	for _, k := range known {
		if d := editDistance(s, k); d <= bestDistance && (best == "" || d < bestDistance) {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		for _, k := range known {
			if len(s) >= 4 && (strings.HasPrefix(k, s) || strings.HasSuffix(k, s)) {
				return k
			}
		}
	}
	return best
}

// editDistance is Levenshtein's, by bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
