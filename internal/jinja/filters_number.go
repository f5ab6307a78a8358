package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
)

func (s *state) abs(v Value, _ *arguments) Value {
	s.needDefined(v)
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	}
	i, ok := toInt(v)
	if !ok {
		s.fail("bad operand type for abs(): '%s'", TypeName(v))
	}
	return integer(new(big.Int).Abs(i))
}

func (s *state) floatFilter(v Value, a *arguments) Value {
	preset := or(a.bind(s, "float", 0, "default")[0], 0.0)
	if u, ok := v.(*undefined); ok {
		s.needDefined(u)
	}
	if f, ok := parseFloat(v); ok {
		return f
	}
	return preset
}

func (s *state) intFilter(v Value, a *arguments) Value {
	args := a.bind(s, "int", 0, "default", "base")
	preset := or(args[0], int64(0))
	s.needDefined(v)
	if i, ok := toInt(v); ok {
		return integer(i)
	}
	if t, ok := v.(Text); ok {
		base := s.clampedInt(or(args[1], int64(10)), "a base")
		if i, ok := parseInt(t.s, base); ok {
			return integer(i)
		}
	}
	f, ok := parseFloat(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return preset
	}
	i, _ := big.NewFloat(math.Trunc(f)).Int(nil)
	return integer(i)
}

func (s *state) round(v Value, a *arguments) Value {
	args := a.bind(s, "round", 0, "precision", "method")
	precision := s.clampedInt(or(args[0], int64(0)), "a precision")
	how := s.needText(or(args[1], NewText("common"))).s
	s.needDefined(v)
	if !isNumber(v) {
		s.fail("type %s doesn't define __round__ method", TypeName(v))
	}
	scale := math.Pow(10, float64(precision))
	switch how {
	case "common":
		if i, ok := toInt(v); ok && precision >= 0 {
			return integer(i)
		}
		if precision < 0 {
			return math.RoundToEven(toFloat(v)*scale) / scale
		}
		f, _ := strconv.ParseFloat(strconv.FormatFloat(toFloat(v), 'f', min(precision, 400), 64), 64)
		return f
	case "ceil":
		return (math.Ceil(toFloat(v)*scale) + 0) / scale // -0 becomes 0, as for Python's integers
	case "floor":
		return (math.Floor(toFloat(v)*scale) + 0) / scale
	}
	s.fail("method must be common, ceil or floor")
	return nil
}

func (s *state) fileSize(v Value, a *arguments) Value {
	binary := truth(or(a.bind(s, "filesizeformat", 0, "binary")[0], false))
	bytes, ok := parseFloat(v)
	if !ok {
		s.fail("could not convert %s to float", repr(v).s)
	}
	base, suffix := 1000.0, "B"
	prefixes := "kMGTPEZY"
	if binary {
		base, suffix, prefixes = 1024, "iB", "KMGTPEZY"
	}
	switch {
	case bytes == 1:
		return NewText("1 Byte")
	case bytes < base:
		return NewText(fmt.Sprintf("%d Bytes", int64(bytes)))
	}
	unit := base
	for i := range prefixes {
		unit *= base
		if bytes < unit || i == len(prefixes)-1 {
			return NewText(fmt.Sprintf("%.1f %c%s", base*bytes/unit, prefixes[i], suffix))
		}
	}
	return nil
}
