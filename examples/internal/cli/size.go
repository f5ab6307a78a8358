package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// A Size is a flag's number of bytes with a unit, or auto, which leaves the choice to the program; "" if the
// flag is not set.
type Size string

// sizeUnits are the units of sizes. Units of one letter are binary, as the system's limits are.
var sizeUnits = map[string]float64{
	"K": 1 << 10, "KIB": 1 << 10, "KB": 1e3, "M": 1 << 20, "MIB": 1 << 20, "MB": 1e6,
	"G": 1 << 30, "GIB": 1 << 30, "GB": 1e9, "T": 1 << 40, "TIB": 1 << 40, "TB": 1e12,
}

// Decode reads a size for kong.
func (s *Size) Decode(ctx *kong.DecodeContext) error {
	var text string
	if err := ctx.Scan.PopValueInto("size", &text); err != nil {
		return err
	}
	size := Size(strings.TrimSpace(text))
	if _, err := size.parse(); err != nil {
		return err
	}
	*s = size
	return nil
}

// IsAuto reports whether the program chooses the size.
func (s Size) IsAuto() bool { return strings.EqualFold(string(s), "auto") }

// Bytes returns the size, 0 for auto.
func (s Size) Bytes() int64 {
	n, _ := s.parse() // Decode has checked it
	return n
}

func (s Size) parse() (int64, error) {
	if s.IsAuto() {
		return 0, nil
	}
	text := string(s)
	number := strings.TrimRight(text, "KMGTIBkmgtib")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	unit, known := sizeUnits[strings.ToUpper(text[len(number):])]
	bytes := n * unit
	switch {
	case err == nil && n > 0 && number == text:
		return 0, fmt.Errorf("%s has no unit; expected a size such as 6GiB or 800MiB, or auto", text)
	case err != nil || !known || !(bytes >= 1) || bytes >= math.MaxInt64:
		return 0, fmt.Errorf("expected a size such as 6GiB or 800MiB, or auto, but got %q", text)
	}
	return int64(bytes), nil
}
