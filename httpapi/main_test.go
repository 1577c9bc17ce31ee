package httpapi

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends the run with what no single test can see: goroutines that are
// left, and answers that openapi.yaml describes and no test has had.
func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if code == 0 && flagIs("test.fuzz", "") {
		if err := goleak.Find(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	if code == 0 && wholeRun() {
		code = unseen()
	}
	os.Exit(code)
}

// wholeRun tells whether every test was asked for.
func wholeRun() bool {
	return flagIs("test.run", "") && flagIs("test.skip", "") && flagIs("test.list", "") && flagIs("test.fuzz", "") &&
		!testing.Short()
}

func flagIs(name, value string) bool {
	f := flag.Lookup(name)
	return f == nil || f.Value.String() == value
}

func unseen() int {
	c, err := loadContract()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	left := c.Unseen()
	for _, a := range left {
		fmt.Printf("openapi.yaml describes an answer that no test has seen: %s\n", a)
	}
	if len(left) > 0 {
		return 1
	}
	return 0
}
