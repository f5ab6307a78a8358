package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a grammar's text.
const (
	maxText    = 4 << 20 // bytes
	maxNesting = 256     // groups in groups
	maxInRow   = 8       // repetitions of one item, each of the one before, as in x*+?
	noLimit    = -1      // of a repetition
)

// An expr is a part of a rule's body: one of the types below.
type expr any

type (
	sequence []expr
	choice   []expr
	class    []runeRange // one code point of the ranges
	rule     int         // the text of a rule, by its index
	repeat   struct {
		of       expr
		min, max int
	}
	token struct {
		text string // "" if the ID is given
		id   int32
		not  bool
	}
)

type runeRange struct{ lo, hi rune }

var anyRune = class{{0, utf8.MaxRune}}

// A parser reads GBNF.
type parser struct {
	text    string
	at      int
	depth   int // of groups
	rules   []expr
	names   []string // of rules
	index   map[string]int
	defined []bool
}

// parse reads all rules, and returns them with the index of root.
func (p *parser) parse() (root int, err error) {
	if len(p.text) > maxText {
		return 0, fmt.Errorf("grammar: the text has %d bytes; the limit is %d", len(p.text), maxText)
	}
	p.index = map[string]int{}
	p.space(true)
	for p.at < len(p.text) {
		if err := p.rule(); err != nil {
			return 0, err
		}
	}
	for i, name := range p.names {
		if !p.defined[i] {
			return 0, fmt.Errorf("grammar: there is no rule %q, which another one uses", name)
		}
	}
	root, has := p.index["root"]
	if !has {
		return 0, errors.New(`grammar: there is no rule "root"`)
	}
	return root, nil
}

// fail returns an error at an offset.
func (p *parser) fail(at int, format string, args ...any) error {
	before := p.text[:at]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Errorf("grammar: line %d, column %d: %s", line, column, fmt.Sprintf(format, args...))
}

// peek returns the next byte; 0 at the end.
func (p *parser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// skip skips a text, and reports whether it is next.
func (p *parser) skip(text string) bool {
	found := strings.HasPrefix(p.text[p.at:], text)
	if found {
		p.at += len(text)
	}
	return found
}

// space skips blanks and comments, and line ends if lines is set.
func (p *parser) space(lines bool) {
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
		case c == '#':
			end := strings.IndexAny(p.text[p.at:], "\r\n")
			if end < 0 {
				end = len(p.text) - p.at
			}
			p.at += end - 1
		default:
			return
		}
	}
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

func (p *parser) name() (string, error) {
	from := p.at
	for isNameByte(p.peek()) {
		p.at++
	}
	if p.at == from {
		return "", p.fail(from, "expected the name of a rule: letters, digits and -")
	}
	return p.text[from:p.at], nil
}

// ruleNamed returns the index of a rule, which may be defined later.
func (p *parser) ruleNamed(name string) int {
	i, has := p.index[name]
	if !has {
		i = len(p.rules)
		p.index[name] = i
		p.rules, p.names, p.defined = append(p.rules, nil), append(p.names, name), append(p.defined, false)
	}
	return i
}

// rule reads a rule and the end of its line.
func (p *parser) rule() error {
	from := p.at
	name, err := p.name()
	if err != nil {
		return err
	}
	i := p.ruleNamed(name)
	if p.defined[i] {
		return p.fail(from, "the rule %q is defined twice", name)
	}
	if p.space(false); !p.skip("::=") {
		return p.fail(p.at, "expected ::= after the name of a rule")
	}
	p.space(true)
	if p.rules[i], err = p.choice(); err != nil {
		return err
	}
	p.defined[i] = true
	if c := p.peek(); c != 0 && c != '\r' && c != '\n' || c == 0 && p.at < len(p.text) {
		return p.fail(p.at, "expected the end of the rule, found %q", p.nextRune())
	}
	p.space(true)
	return nil
}

func (p *parser) nextRune() rune {
	r, _ := utf8.DecodeRuneInString(p.text[p.at:])
	return r
}

// choice reads alternatives.
func (p *parser) choice() (expr, error) {
	var all choice
	for {
		x, err := p.sequence()
		if err != nil {
			return nil, err
		}
		all = append(all, x)
		if !p.skip("|") {
			break
		}
		p.space(true)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return all, nil
}

// sequence reads what follows one another.
func (p *parser) sequence() (expr, error) {
	var all sequence
	for {
		from := p.at
		x, ends, err := p.item()
		if err != nil {
			return nil, err
		}
		if ends {
			return all, nil
		}
		lines := p.depth > 0
		p.space(lines)
		for n := 0; ; n++ {
			least, most, found, err := p.repetition()
			if err != nil {
				return nil, err
			}
			if !found {
				break
			}
			if n == maxInRow {
				return nil, p.fail(from, "more than %d repetitions of one another", maxInRow)
			}
			if most != noLimit && most < least {
				return nil, p.fail(from, "a repetition of at least %d and at most %d", least, most)
			}
			x = repeat{x, least, most}
			p.space(lines)
		}
		all = append(all, x)
	}
}

// item reads one element of a sequence; ends means that there is none.
func (p *parser) item() (x expr, ends bool, err error) {
	switch c := p.peek(); {
	case c == '"':
		x, err = p.literal()
	case c == '[':
		x, err = p.class()
	case c == '.':
		p.at++
		x = anyRune
	case c == '<' || c == '!':
		x, err = p.token()
	case c == '(':
		x, err = p.group()
	case isNameByte(c):
		var name string
		if name, err = p.name(); err == nil {
			x = rule(p.ruleNamed(name))
		}
	case strings.IndexByte("*+?{", c) >= 0 && p.at < len(p.text):
		return nil, false, p.fail(p.at, "%q repeats nothing", c)
	default:
		return nil, true, nil
	}
	return x, false, err
}

func (p *parser) group() (expr, error) {
	from := p.at
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail(from, "more than %d groups in groups", maxNesting)
	}
	p.at++
	p.space(true)
	x, err := p.choice()
	if err != nil {
		return nil, err
	}
	p.depth--
	if !p.skip(")") {
		return nil, p.fail(from, "the group has no )")
	}
	return x, nil
}

func (p *parser) literal() (expr, error) {
	from := p.at
	var all sequence
	for p.at++; !p.skip(`"`); {
		r, err := p.rune(from, `"`)
		if err != nil {
			return nil, err
		}
		all = append(all, class{{r, r}})
	}
	return all, nil
}

func (p *parser) class() (expr, error) {
	from := p.at
	p.at++
	not := p.skip("^")
	var all class
	for !p.skip("]") {
		at := p.at
		lo, err := p.rune(from, "]")
		if err != nil {
			return nil, err
		}
		hi := lo
		if p.peek() == '-' && p.at+1 < len(p.text) && p.text[p.at+1] != ']' {
			p.at++
			if hi, err = p.rune(from, "]"); err != nil {
				return nil, err
			}
			if hi < lo {
				return nil, p.fail(at, "the range %q to %q ends before it begins", lo, hi)
			}
		}
		all = append(all, runeRange{lo, hi})
	}
	if len(all) == 0 {
		return nil, p.fail(from, "the class is empty")
	}
	return all.canonical(not), nil
}

// canonical returns sorted, disjoint ranges, or those between them.
func (c class) canonical(not bool) class {
	slices.SortFunc(c, func(a, b runeRange) int { return int(a.lo - b.lo) })
	joined := c[:1]
	for _, r := range c[1:] {
		if last := &joined[len(joined)-1]; r.lo <= last.hi+1 {
			last.hi = max(last.hi, r.hi)
		} else {
			joined = append(joined, r)
		}
	}
	if !not {
		return joined
	}
	var between class
	next := rune(0)
	for _, r := range joined {
		if r.lo > next {
			between = append(between, runeRange{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		between = append(between, runeRange{next, utf8.MaxRune})
	}
	return between
}

// rune reads a code point of a text or class that began at from.
func (p *parser) rune(from int, closing string) (rune, error) {
	if p.peek() != '\\' {
		r, n := utf8.DecodeRuneInString(p.text[p.at:])
		switch {
		case n == 0:
			return 0, p.fail(from, "there is no closing %s", closing)
		case r == utf8.RuneError && n == 1:
			return 0, p.fail(p.at, "invalid UTF-8")
		}
		p.at += n
		return r, nil
	}
	at := p.at
	p.at += 2
	if p.at > len(p.text) {
		return 0, p.fail(from, "there is no closing %s", closing)
	}
	switch c := p.text[at+1]; c {
	case 'x':
		return p.hex(at, 2)
	case 'u':
		return p.hex(at, 4)
	case 'U':
		return p.hex(at, 8)
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-':
		return rune(c), nil
	}
	return 0, p.fail(at, "unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\xFF \\uFFFF \\U0010FFFF")
}

func (p *parser) hex(at, digits int) (rune, error) {
	text := p.text[p.at:min(len(p.text), p.at+digits)]
	r, err := strconv.ParseUint(text, 16, 32)
	if err != nil || len(text) < digits {
		return 0, p.fail(at, "expected %d hexadecimal digits", digits)
	}
	if r > utf8.MaxRune {
		return 0, p.fail(at, "there is no code point U+%X", r)
	}
	p.at += digits
	return rune(r), nil
}

// token reads a token by its text or ID, perhaps after !.
func (p *parser) token() (expr, error) {
	from := p.at
	t := token{not: p.skip("!")}
	if !p.skip("<") {
		return nil, p.fail(from, "expected a token, such as !<|end|>, after !")
	}
	if p.skip("[") {
		digits := p.digits()
		id, err := strconv.ParseInt(digits, 10, 32)
		if err != nil || !p.skip("]>") {
			return nil, p.fail(from, "expected the ID of a token, such as <[12]>")
		}
		t.id = int32(id)
		return t, nil
	}
	end := strings.IndexAny(p.text[p.at:], ">\n")
	if end < 0 || p.text[p.at+end] != '>' {
		return nil, p.fail(from, "the token has no >")
	}
	t.text = "<" + p.text[p.at:p.at+end+1]
	p.at += end + 1
	return t, nil
}

func (p *parser) digits() string {
	from := p.at
	for c := p.peek(); c >= '0' && c <= '9'; c = p.peek() {
		p.at++
	}
	return p.text[from:p.at]
}

// repetition reads *, +, ? or {…} if it is next.
func (p *parser) repetition() (least, most int, found bool, err error) {
	switch {
	case p.skip("*"):
		return 0, noLimit, true, nil
	case p.skip("+"):
		return 1, noLimit, true, nil
	case p.skip("?"):
		return 0, 1, true, nil
	case !p.skip("{"):
		return 0, 0, false, nil
	}
	from := p.at - 1
	lines := p.depth > 0
	number := func() (int, bool) {
		p.space(lines)
		digits := p.digits()
		p.space(lines)
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil && digits != "" {
			return math.MaxInt32, true // too many states, whatever is repeated
		}
		return int(n), digits != ""
	}
	least, has := number()
	if !has {
		return 0, 0, false, p.fail(from, "expected a repetition such as {2}, {2,} or {2,5}")
	}
	most = least
	if p.skip(",") {
		if most, has = number(); !has {
			most = noLimit
		}
	}
	if !p.skip("}") {
		return 0, 0, false, p.fail(from, "expected a repetition such as {2}, {2,} or {2,5}")
	}
	return least, most, true, nil
}
