package jinja

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

var percentPattern = regexp.MustCompile(`^%(?:\(([^)]*)\))?([-#0 +]*)(\*|\d+)?(?:\.(\*|\d+)?)?([hlL]?)([a-zA-Z%])`)

// percent is t % args.
func (s *state) percent(t Text, args Value) Value {
	items := []Value{args}
	if q, ok := args.(*Sequence); ok && q.kind == tupleKind {
		items = q.Items
	}
	m, isMapping := args.(*Dict)
	used := 0
	next := func() Value {
		if used >= len(items) {
			s.fail("not enough arguments for format string")
		}
		used++
		return items[used-1]
	}
	var b textBuilder
	for at := 0; at < len(t.s); {
		i := strings.IndexByte(t.s[at:], '%')
		if i < 0 {
			b.add(t.Slice(at, len(t.s)))
			break
		}
		b.add(t.Slice(at, at+i))
		at += i
		p := percentPattern.FindStringSubmatch(t.s[at:])
		if p == nil {
			s.fail("incomplete or unsupported format")
		}
		at += len(p[0])
		if p[6] == "%" {
			b.addString("%")
			continue
		}
		f := s.percentSpec(p, next)
		var v Value
		if strings.HasPrefix(p[0], "%(") {
			if !isMapping {
				s.fail("format requires a mapping")
			}
			found, ok := m.Get(p[1])
			if !ok {
				s.fail("format: there is no key '%s'", p[1])
			}
			v, used = found, len(items)
		} else {
			v = next()
		}
		b.add(s.percentField(f, v))
		s.chargeText(len(b.b))
	}
	if used < len(items) && !isMapping {
		s.fail("not all arguments converted during string formatting")
	}
	return b.text()
}

func (s *state) percentSpec(p []string, next func() Value) formatSpec {
	f := formatSpec{fill: " ", align: '>', precision: -1, kind: p[6][0]}
	for _, flag := range p[2] {
		switch flag {
		case '-':
			f.align = '<'
		case '#':
			f.alternate = true
		case '0':
			f.zero = true
		default:
			if f.sign != '+' {
				f.sign = byte(flag)
			}
		}
	}
	number := func(digits string) int {
		if digits == "*" {
			return s.clampedInt(next(), "a width")
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return 0
		}
		return min(n, 1<<40)
	}
	if f.width = number(p[3]); f.width < 0 {
		f.align, f.width = '<', -f.width
	}
	if strings.Contains(p[0], ".") {
		f.precision = number(p[4])
	}
	return f
}

func (s *state) percentField(f formatSpec, v Value) Text {
	switch f.kind {
	case 's', 'r', 'a':
		t := s.str(v)
		if f.kind != 's' {
			t = repr(v)
		}
		f.zero = false
		return s.fit(f, cut(t, f.precision))
	case 'c':
		if n, ok := toInt(v); ok {
			return s.fit(f, NewText(string(rune(n.Int64()))))
		}
		return s.fit(f, s.needText(v))
	case 'd', 'i', 'u':
		s.needDefined(v)
		if x, ok := v.(float64); ok {
			i, _ := big.NewFloat(x).Int(nil)
			v = integer(i)
		}
		f.kind = 'd'
	case 'F':
		f.kind = 'f'
	}
	if !isNumber(v) {
		s.needDefined(v)
		s.fail("%%%c format: a number is required, not %s", f.kind, TypeName(v))
	}
	return s.formatNumber(f, v)
}
