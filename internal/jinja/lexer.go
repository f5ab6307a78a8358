package jinja

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lexer splits a template into tokens, with trim_blocks and lstrip_blocks as set by transformers.
type lexer struct {
	name, source string
	pos, line    int
	tokens       []token
	lineStart    bool   // the next text begins a line
	open         []byte // closing brackets expected in the expression
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// Tokens of expressions, as in jinja2.lexer.
var (
	floatPattern   = regexp.MustCompile(`^(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?[eE][+\-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+)`)
	integerPattern = regexp.MustCompile(`^(?i:0b(?:_?[0-1])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*)`)
	stringPattern  = regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)
)

var operators = []string{"//", "**", "==", "!=", ">=", "<=",
	"+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}

func lex(name, source string) []token {
	source = newlines.Replace(source)
	source = strings.TrimSuffix(source, "\n") // as with keep_trailing_newline off
	l := &lexer{name: name, source: source, line: 1, lineStart: true}
	for l.pos < len(l.source) {
		l.lexText()
	}
	return append(l.tokens, token{kind: eofToken, line: l.line})
}

func (l *lexer) fail(format string, args ...any) { fail(l.name, l.line, format, args...) }

func (l *lexer) emit(kind tokenKind, text string) {
	l.add(token{kind: kind, line: l.line, text: text})
}

func (l *lexer) add(t token) {
	if len(l.tokens) == maxTokens {
		l.fail("a template of more than %d names, numbers, operators and other parts", maxTokens)
	}
	l.tokens = append(l.tokens, t)
}

// advance skips n bytes.
func (l *lexer) advance(n int) {
	chunk := l.source[l.pos : l.pos+n]
	l.line += strings.Count(chunk, "\n")
	if n > 0 {
		l.lineStart = chunk[n-1] == '\n'
	}
	l.pos += n
}

// tagAt returns the index of the next tag from byte `from` on, or -1.
func (l *lexer) tagAt(from int) int {
	for i := from; ; i++ {
		n := strings.IndexByte(l.source[i:], '{')
		if n < 0 || i+n+1 >= len(l.source) {
			return -1
		}
		i += n
		if strings.IndexByte("{%#", l.source[i+1]) >= 0 {
			return i
		}
	}
}

// lexText lexes the text before a tag, and the tag.
func (l *lexer) lexText() {
	start := l.tagAt(l.pos)
	if start < 0 {
		l.emit(dataToken, l.source[l.pos:])
		l.advance(len(l.source) - l.pos)
		return
	}
	kind := l.source[start+1]
	l.data(start, kind != '{')
	l.advance(2)
	if c := l.peek(); c == '-' || c == '+' {
		l.advance(1)
	}
	switch kind {
	case '#':
		l.comment()
	case '{':
		l.emit(variableBegin, "")
		l.expression(variableEnd)
	default:
		if l.raw() {
			return
		}
		l.emit(blockBegin, "")
		l.expression(blockEnd)
	}
}

func (l *lexer) peek() byte {
	if l.pos < len(l.source) {
		return l.source[l.pos]
	}
	return 0
}

// data emits the text before the tag at start, without the white space that the tag strips, and advances to the tag.
func (l *lexer) data(start int, isBlock bool) {
	text := l.source[l.pos:start]
	sign := byte(0)
	if start+2 < len(l.source) {
		sign = l.source[start+2]
	}
	stripped := text
	switch {
	case sign == '-':
		stripped = strings.TrimRightFunc(text, IsSpace)
	case sign != '+' && isBlock:
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || l.lineStart) && line < len(text) && strings.TrimFunc(text[line:], IsSpace) == "" {
			stripped = text[:line]
		}
	}
	if stripped != "" {
		l.emit(dataToken, stripped)
	}
	l.advance(start - l.pos)
}

// closing returns the length of the end of a tag at i, including the white space that it strips, or 0.
func (l *lexer) closing(i int, end string, isBlock bool) int {
	rest := l.source[i:]
	switch {
	case strings.HasPrefix(rest, "-"+end):
		n := 1 + len(end)
		return n + len(rest[n:]) - len(strings.TrimLeftFunc(rest[n:], IsSpace))
	case isBlock && strings.HasPrefix(rest, "+"+end):
		return 1 + len(end)
	case strings.HasPrefix(rest, end):
		if isBlock && strings.HasPrefix(rest[len(end):], "\n") {
			return len(end) + 1
		}
		return len(end)
	}
	return 0
}

func (l *lexer) comment() {
	for i := l.pos; i < len(l.source); i++ {
		if n := l.closing(i, "#}", true); n > 0 {
			l.advance(i + n - l.pos)
			return
		}
	}
	if l.pos < len(l.source) { // Jinja permits an unclosed comment at the very end
		l.fail("missing end of comment tag")
	}
}

// spaces is Python's \s in regular expressions, equal to IsSpace.
const spaces = `[\t-\r\x1c- \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]*`

var rawBegin = regexp.MustCompile(`^` + spaces + `raw` + spaces + `(?:-%\}` + spaces + `|%\})`)

var rawEnd = regexp.MustCompile(`\{%[-+]?` + spaces + `endraw` + spaces + `(?:\+%\}|-%\}` + spaces + `|%\}\n?)`)

// raw lexes a raw block after its opening delimiter; false if the tag is not raw.
func (l *lexer) raw() bool {
	m := rawBegin.FindString(l.source[l.pos:])
	if m == "" {
		return false
	}
	l.advance(len(m))
	end := rawEnd.FindStringIndex(l.source[l.pos:])
	if l.pos == len(l.source) {
		return true
	}
	if end == nil {
		l.fail("missing end of raw directive")
	}
	l.data(l.pos+end[0], true)
	l.advance(end[1] - end[0])
	return true
}

// expression lexes the tokens of a tag through its end.
func (l *lexer) expression(end tokenKind) {
	closer := "}}"
	if end == blockEnd {
		closer = "%}"
	}
	l.open = l.open[:0]
	for {
		if len(l.open) == 0 {
			if n := l.closing(l.pos, closer, end == blockEnd); n > 0 {
				l.emit(end, "")
				l.advance(n)
				return
			}
		}
		if l.pos >= len(l.source) {
			l.emit(eofToken, "")
			return
		}
		l.lexToken()
	}
}

func (l *lexer) lexToken() {
	rest := l.source[l.pos:]
	r, _ := utf8.DecodeRuneInString(rest)
	switch {
	case IsSpace(r):
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, IsSpace)))
	case r >= '0' && r <= '9':
		l.number(rest)
	case isIdentifierStart(r):
		n := strings.IndexFunc(rest, func(r rune) bool { return !isIdentifierStart(r) && !unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc) })
		if n < 0 {
			n = len(rest)
		}
		l.emit(nameToken, rest[:n])
		l.advance(n)
	case r == '\'' || r == '"':
		l.stringLiteral(rest)
	default:
		l.operator(rest)
	}
}

func (l *lexer) number(rest string) {
	m := ""
	if l.pos == 0 || l.source[l.pos-1] != '.' { // in a list of lists, .0.1 is an item of an item
		m = floatPattern.FindString(rest)
	}
	var n Value
	if m != "" {
		if len(m) > maxBits {
			l.fail("a number of more than %d digits", maxBits)
		}
		f, _ := strconv.ParseFloat(strings.ReplaceAll(m, "_", ""), 64)
		n = f
	} else {
		m = integerPattern.FindString(rest)
		if len(m) > maxBits+len("0b") {
			l.fail("a number of more than %d bits", maxBits)
		}
		i, ok := new(big.Int).SetString(strings.ReplaceAll(m, "_", ""), 0)
		if !ok {
			i = new(big.Int) // a row of zeros
		}
		if i.BitLen() > maxBits {
			l.fail("a number of more than %d bits", maxBits)
		}
		n = integer(i)
	}
	l.add(token{kind: numberToken, line: l.line, number: n})
	l.advance(len(m))
}

func (l *lexer) stringLiteral(rest string) {
	m := stringPattern.FindString(rest)
	if m == "" {
		l.fail("unexpected char %q: a string without an end", rest[0])
	}
	s, problem := unescape(m[1 : len(m)-1])
	if problem != "" {
		l.fail("%s", problem)
	}
	l.emit(stringToken, s)
	l.advance(len(m))
}

func (l *lexer) operator(rest string) {
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		l.balance(op)
		l.emit(operatorToken, op)
		l.advance(len(op))
		return
	}
	r, _ := utf8.DecodeRuneInString(rest)
	l.fail("unexpected char %q", r)
}

// balance tracks brackets: }} inside a dict does not end a tag.
func (l *lexer) balance(op string) {
	switch op {
	case "{":
		l.open = append(l.open, '}')
	case "(":
		l.open = append(l.open, ')')
	case "[":
		l.open = append(l.open, ']')
	case "}", ")", "]":
		if len(l.open) == 0 {
			l.fail("unexpected %q", op)
		}
		want := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if want != op[0] {
			l.fail("unexpected %q, expected %q", op, want)
		}
	}
}

// One-letter escapes.
var escapes = map[byte]string{'\n': "", '\\': "\\", '\'': "'", '"': "\"", 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v"}

// unescape decodes Python's escapes; problem describes an invalid escape.
func unescape(s string) (out, problem string) {
	if !strings.Contains(s, `\`) {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++ // the pattern of strings guarantees a next character
		if e, ok := escapes[s[i]]; ok {
			b.WriteString(e)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		switch {
		case digits > 0:
			if i+digits >= len(s) {
				return "", "truncated \\" + string(s[i]) + " escape"
			}
			n, err := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if err != nil || n > unicode.MaxRune {
				return "", "invalid \\" + string(s[i]) + " escape"
			}
			b.WriteRune(rune(n))
			i += digits
		case s[i] >= '0' && s[i] <= '7':
			end := i + 1
			for end < len(s) && end < i+3 && s[end] >= '0' && s[end] <= '7' {
				end++
			}
			n, _ := strconv.ParseUint(s[i:end], 8, 32)
			b.WriteRune(rune(n))
			i = end - 1
		case s[i] == 'N':
			return "", "\\N escapes are not supported"
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}
