package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// isNumber reports whether v is a Python number, including bool.
func isNumber(v Value) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// toInt converts v if it is an integer or a bool.
func toInt(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case int64:
		return big.NewInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

func toFloat(v Value) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	i, _ := toInt(v)
	f, _ := new(big.Float).SetInt(i).Float64()
	return f
}

// Float converts a Python number, including bool; false for other values.
func Float(v Value) (float64, bool) {
	if !isNumber(v) {
		return 0, false
	}
	return toFloat(v), true
}

func integer(i *big.Int) Value {
	if i.IsInt64() {
		return i.Int64()
	}
	return i
}

// compareNumbers returns -1, 0 or 1, or 2 if either is not a number.
func compareNumbers(a, b Value) int {
	x, isInt := toInt(a)
	y, both := toInt(b)
	if isInt && both {
		return x.Cmp(y)
	}
	f, g := toFloat(a), toFloat(b)
	switch {
	case f < g:
		return -1
	case f > g:
		return 1
	case f == g:
		return 0
	}
	return 2
}

func (s *state) number(op string, a, b Value) Value {
	x, isInt := toInt(a)
	y, both := toInt(b)
	if isInt && both && op != "/" && !(op == "**" && y.Sign() < 0) {
		return s.integers(op, x, y)
	}
	f, g := toFloat(a), toFloat(b)
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		if f == 0 && g < 0 {
			s.fail("zero cannot be raised to a negative power")
		}
		power := math.Pow(f, g)
		if math.IsInf(power, 0) && !math.IsInf(f, 0) && !math.IsInf(g, 0) || math.IsNaN(power) && !math.IsNaN(f) && !math.IsNaN(g) {
			s.fail("numerical result of ** out of range")
		}
		return power
	}
	if g == 0 {
		s.fail("division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor((f - floorMod(f, g)) / g)
	case "%":
		return floorMod(f, g)
	}
	s.fail("unsupported operand type(s) for %s: '%s' and '%s'", op, TypeName(a), TypeName(b))
	return nil
}

// floorMod is % for floats: the result has the sign of g.
func floorMod(f, g float64) float64 {
	r := math.Mod(f, g)
	if r != 0 && (r < 0) != (g < 0) {
		r += g
	}
	return math.Copysign(r, g)
}

func (s *state) integers(op string, x, y *big.Int) Value {
	out := new(big.Int)
	switch op {
	case "+":
		out.Add(x, y)
	case "-":
		out.Sub(x, y)
	case "*":
		out.Mul(x, y)
	case "**":
		if x.BitLen() > 1 && (y.BitLen() > 16 || int64(x.BitLen())*y.Int64() > maxBits) {
			s.fail("a number of more than %d bits", maxBits)
		}
		out.Exp(x, y, nil)
	case "//", "%":
		if y.Sign() == 0 {
			s.fail("integer division or modulo by zero")
		}
		q, r := new(big.Int).QuoRem(x, y, new(big.Int))
		if r.Sign() != 0 && (r.Sign() < 0) != (y.Sign() < 0) {
			q.Sub(q, big.NewInt(1))
			r.Add(r, y)
		}
		out = q
		if op == "%" {
			out = r
		}
	default:
		s.fail("unsupported operand type(s) for %s: 'int' and 'int'", op)
	}
	if out.BitLen() > maxBits {
		s.fail("a number of more than %d bits", maxBits)
	}
	return integer(out)
}

// negate returns -v.
func (s *state) negate(v Value) Value {
	s.needDefined(v)
	if f, ok := v.(float64); ok {
		return -f
	}
	i, ok := toInt(v)
	if !ok {
		s.fail("bad operand type for unary -: '%s'", TypeName(v))
	}
	return integer(new(big.Int).Neg(i))
}

// parseFloat is Python's float(v).
func parseFloat(v Value) (float64, bool) {
	if isNumber(v) {
		return toFloat(v), true
	}
	t, ok := v.(Text)
	if !ok {
		return 0, false
	}
	digits := strings.TrimFunc(t.s, IsSpace)
	if strings.ContainsAny(digits, "xXpP") || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

// parseInt is Python's int(s, base).
func parseInt(s string, base int) (*big.Int, bool) {
	s = strings.TrimFunc(s, IsSpace)
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") || len(s) > maxBits/4 {
		return nil, false
	}
	s = strings.ReplaceAll(s, "_", "")
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		sign := ""
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign, s = s[:1], s[1:]
		}
		if len(s) > 2 && strings.EqualFold(s[:2], prefix) {
			s = s[2:]
		}
		s = sign + s
	}
	if base != 0 && (base < 2 || base > 36) {
		return nil, false
	}
	return new(big.Int).SetString(s, base)
}

// formatFloat is repr() of a float: the shortest digits, with an exponent from 1e16 and below 1e-4.
func formatFloat(f float64) string { return floatText(f, "nan", "inf") }

func floatText(f float64, nan, inf string) string {
	switch {
	case math.IsNaN(f):
		return nan
	case math.IsInf(f, 1):
		return inf
	case math.IsInf(f, -1):
		return "-" + inf
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
