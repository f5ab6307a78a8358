package jinja

import (
	"math/big"
	"time"
)

// state is one rendering.
type state struct {
	name      string // of the template
	line      int    // of what is evaluated, for errors
	steps     int
	depth     int
	now       time.Time
	out       *textBuilder // what is written now: the text, or a part of it that is captured
	top       *textBuilder // the text
	turn      int32        // the mark of the dict whose turn is written; 0 outside
	loops     int          // how many are open
	hasTurn   bool         // the innermost loop is at a marked dict
	generated []Range      // by generation tags
}

func (s *state) fail(format string, args ...any) { fail(s.name, s.line, format, args...) }

// locate gives an error its place, if what found it did not know that.
func (s *state) locate(err *error) {
	if e, ok := (*err).(*Error); ok && e.Line == 0 {
		e.Template, e.Line = s.name, s.line
	}
}

// scope holds the names of one block, which are few: a list is faster than a map. A name is looked up from the inside
// to the outside.
type scope struct {
	names  []string
	values []Value
	parent *scope
}

func (c *scope) set(name string, v Value) {
	for i, known := range c.names {
		if known == name {
			c.values[i] = v
			return
		}
	}
	c.names, c.values = append(c.names, name), append(c.values, v)
}

func (c *scope) get(name string) (Value, bool) {
	for ; c != nil; c = c.parent {
		for i, known := range c.names {
			if known == name {
				return c.values[i], true
			}
		}
	}
	return nil, false
}

// emit writes what the template puts out. Bytes without a turn are of the one that is written.
func (s *state) emit(t Text) {
	if len(s.out.b)+len(t.s) > maxText {
		s.chargeText(maxText + 1)
	}
	s.charge(len(t.s) >> 6)
	s.out.addInTurn(t, s.turn)
}

// capture gives what f writes instead of writing it.
func (s *state) capture(f func()) Text {
	outer := s.out
	s.out = &textBuilder{}
	f()
	t := s.out.text()
	s.out = outer
	return t
}

// str is str() of a value, counted.
func (s *state) str(v Value) Text {
	t := str(v)
	s.charge(len(t.s) >> 6)
	return t
}

// needDefined fails if v is undefined.
func (s *state) needDefined(v Value) {
	if u, ok := v.(*undefined); ok {
		if u.unsafe {
			s.fail("%s: the sandbox of templates forbids it", u.what)
		}
		s.fail("%s is undefined", u.what)
	}
}

// needText is v, which has to be a string.
func (s *state) needText(v Value) Text {
	t, ok := v.(Text)
	if !ok {
		s.needDefined(v)
		s.fail("a string expected, got '%s'", TypeName(v))
	}
	return t
}

// needDict is v, which has to be a dict.
func (s *state) needDict(v Value) *Dict {
	d, ok := v.(*Dict)
	if !ok {
		s.needDefined(v)
		s.fail("'%s' object has no attribute 'items'", TypeName(v))
	}
	return d
}

// clampedInt is an integer, cut to what an index needs.
func (s *state) clampedInt(v Value, what string) int {
	s.needDefined(v)
	i, ok := toInt(v)
	if !ok {
		s.fail("%s must be integers, not '%s'", what, TypeName(v))
	}
	limit := big.NewInt(1 << 40)
	if i.CmpAbs(limit) > 0 {
		return int(limit.Int64()) * i.Sign()
	}
	return int(i.Int64())
}

// iterate gives the items of a value.
func (s *state) iterate(v Value) []Value {
	switch v := v.(type) {
	case *Sequence:
		s.charge(len(v.Items) >> 3)
		return v.Items
	case *generator:
		return v.items()
	case *Dict:
		s.charge(len(v.keys) >> 3)
		return v.keys
	case Text:
		s.charge(len(v.s))
		items := make([]Value, 0, len(v.s))
		v.safe = false
		for i, r := range v.s {
			items = append(items, v.Slice(i, i+len(string(r))))
		}
		return items
	case *undefined:
		return nil
	}
	s.fail("'%s' object is not iterable", TypeName(v))
	return nil
}
