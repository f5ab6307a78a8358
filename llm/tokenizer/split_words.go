package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// The alternatives that split patterns are made of.

// contraction is (?i:'s|'t|'re|'ve|'m|'ll|'d).
func contraction(text string) int { return contractionOf(text, true) }

// contractionLower is 's|'t|'re|'ve|'m|'ll|'d.
func contractionLower(text string) int { return contractionOf(text, false) }

func contractionOf(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return b
	}
	first := lower(text[1])
	switch first {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(text) < 3 {
		return 0
	}
	switch string([]byte{first, lower(text[2])}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}

// contractionLongS also folds the long s, as Unicode case folding does.
func contractionLongS(text string) int {
	if strings.HasPrefix(text, "'ſ") {
		return len("'ſ")
	}
	return contraction(text)
}

// letters matches [before]?[set]+, where before excludes CR and LF.
type letters struct {
	before, set classSet
}

func (l letters) match(text string) int {
	if n := run(text, l.set); n > 0 {
		return n
	}
	r, c, size := firstClass(text)
	if !l.before.has(c) || r == '\r' || r == '\n' {
		return 0
	}
	if n := run(text[size:], l.set); n > 0 {
		return size + n
	}
	return 0
}

// lead returns the length of the character before the letters; 0 if there is none or no letters follow.
func (l letters) lead(text string) int {
	r, c, size := firstClass(text)
	if l.set.has(c) || !l.before.has(c) || r == '\r' || r == '\n' {
		return 0
	}
	if _, next, _ := firstClass(text[size:]); !l.set.has(next) {
		return 0
	}
	return size
}

// cased matches letters in one of two forms: any number of capitals and then at least one small letter, or else
// capitals alone. A-Z are capitals, a-z are small letters, and other letters are both.
func (l letters) cased(text string) int {
	from := l.lead(text)
	capitals := run(text[from:], l.set&^setOf(classLower))
	to := from + capitals
	if n := run(text[to:], l.set&^setOf(classUpper)); n > 0 {
		return to + n
	}
	// The last letter that is both counts as the small one.
	if small := strings.TrimRight(text[from:to], "ABCDEFGHIJKLMNOPQRSTUVWXYZ"); small != "" {
		return from + len(small)
	}
	return to
}

// withContraction extends a match by a contraction that follows.
func withContraction(match matchFunc) matchFunc {
	return func(text string) int {
		n := match(text)
		if n > 0 {
			n += contraction(text[n:])
		}
		return n
	}
}

// afterBlank matches match, optionally after one blank.
func afterBlank(match matchFunc) matchFunc {
	return func(text string) int {
		lead := 0
		if text[0] == ' ' {
			lead = 1
		}
		if n := match(text[lead:]); n > 0 {
			return lead + n
		}
		return 0
	}
}

// withTail extends a match by the characters of tail that follow.
func withTail(match matchFunc, tail string) matchFunc {
	return func(text string) int {
		n := match(text)
		for n > 0 && n < len(text) && strings.IndexByte(tail, text[n]) >= 0 {
			n++
		}
		return n
	}
}

// withLineEnd extends a match by one CR or LF that follows.
func withLineEnd(match matchFunc) matchFunc {
	return func(text string) int {
		n := match(text)
		if n > 0 && n < len(text) {
			n += newline(text[n:])
		}
		return n
	}
}

// phrase matches letters and marks, with single blanks between letters.
func phrase(text string) int {
	n := letters{before: anyClass &^ numberSet, set: letterSet}.lead(text)
	if _, c, _ := firstClass(text[n:]); !letterSet.has(c) {
		return 0
	}
	for {
		n += run(text[n:], markedSet)
		if n == len(text) || text[n] != ' ' {
			return n
		}
		if _, c, _ := firstClass(text[n+1:]); !letterSet.has(c) {
			return n
		}
		n++
	}
}

// punctuatedASCII is [!-/:-@\[-`{-~][A-Za-z]+.
func punctuatedASCII(text string) int {
	if text[0] >= utf8.RuneSelf || !punctSet.has(asciiClass[text[0]]) {
		return 0
	}
	if n := run(text[1:], asciiSet); n > 0 {
		return 1 + n
	}
	return 0
}

// spaces returns the length of the leading white space, the length without its last character, and the length
// through its last CR or LF.
func spaces(text string) (all, butLast, newline int) {
	for {
		r, c, size := firstClass(text[all:])
		if c != classSpace {
			return all, butLast, newline
		}
		butLast = all
		all += size
		if r == '\n' || r == '\r' {
			newline = all
		}
	}
}

// gpt2Word is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ .
func gpt2Word(text string) int {
	if n := contractionLower(text); n > 0 {
		return n
	}
	lead := 0
	if text[0] == ' ' {
		lead = 1
	}
	_, c, _ := firstClass(text[lead:])
	switch {
	case letterSet.has(c):
		return lead + run(text[lead:], letterSet)
	case numberSet.has(c):
		return lead + run(text[lead:], numberSet)
	case restSet.has(c):
		return lead + run(text[lead:], restSet)
	}
	return spaceWord(text)
}

// spaceWord is \s+(?!\S)|\s+ : the last space before a word belongs to the word.
func spaceWord(text string) int {
	all, butLast, _ := spaces(text)
	if all < len(text) && butLast > 0 {
		return butLast
	}
	return all
}

// lines is \s*[\r\n]+|\s+(?!\S)|\s+ .
func lines(text string) int {
	all, butLast, newline := spaces(text)
	switch {
	case newline > 0:
		return newline
	case all < len(text) && butLast > 0:
		return butLast
	}
	return all
}

// lineFeeds is [^\n]+|\n+ .
func lineFeeds(text string) int {
	n := strings.IndexByte(text, '\n')
	switch n {
	case -1:
		return len(text)
	case 0:
		return len(text) - len(strings.TrimLeft(text, "\n"))
	}
	return n
}

// blankWord is ▁[^▁]* .
func blankWord(text string) int {
	rest, ok := strings.CutPrefix(text, space)
	if !ok {
		return 0
	}
	if n := strings.Index(rest, space); n >= 0 {
		return len(space) + n
	}
	return len(text)
}

// newline is [\r\n].
func newline(text string) int {
	if text[0] == '\r' || text[0] == '\n' {
		return 1
	}
	return 0
}

// spacePowers cuts white space without line ends into runs of 512 characters and then of powers of two, largest
// first: (\s{512}|\s{256}|…|\s{2}|\s).
func spacePowers(word string, yield func(string)) {
	all, _, newline := spaces(word)
	if all < len(word) || newline > 0 {
		yield(word)
		return
	}
	power := 512
	for left := utf8.RuneCountInString(word); left > 0; left -= power {
		for power > left {
			power /= 2
		}
		n := upTo(word, spaceSet, power)
		yield(word[:n])
		word = word[n:]
	}
}

// digitGroups cuts runs of numbers into groups of three, counted from the end. The first group stays with the text
// before it, as in llama.cpp.
func digitGroups(text string, yield func(string)) {
	from := 0 // start of the part that is not yielded yet
	for pos := 0; pos < len(text); {
		pos += run(text[pos:], anyClass&^numberSet)
		end := pos + run(text[pos:], numberSet)
		for size := (utf8.RuneCountInString(text[pos:end])+2)%3 + 1; pos < end; size = 3 {
			pos += upTo(text[pos:end], numberSet, size)
			yield(text[from:pos])
			from = pos
		}
	}
	if from < len(text) {
		yield(text[from:])
	}
}

// thousands cuts before each group of three digits 0-9, counted from the end of a run of digits: at
// (?=([0-9]{3})+(?![0-9])).
func thousands(text string, yield func(string)) {
	from := 0
	cut := func(at int) {
		if from < at {
			yield(text[from:at])
			from = at
		}
	}
	for pos := 0; pos < len(text); pos++ {
		end := pos
		for end < len(text) && '0' <= text[end] && text[end] <= '9' {
			end++
		}
		for at := pos + (end-pos)%3; at < end; at += 3 {
			cut(at)
		}
		pos = end
	}
	cut(len(text))
}

// trailingSpace cuts off trailing white space: \s+$ .
func trailingSpace(text string, yield func(string)) {
	end := len(strings.TrimRightFunc(text, func(r rune) bool { return classOf(r) == classSpace }))
	for _, part := range []string{text[:end], text[end:]} {
		if part != "" {
			yield(part)
		}
	}
}

// imageToken is (IMGIMG)[A-I]{1,4}Z, chameleon's spelling of image tokens.
func imageToken(text string) int {
	const mark = "IMGIMG"
	if !strings.HasPrefix(text, mark) {
		return 0
	}
	for n := len(mark); n < len(text) && n <= len(mark)+4; n++ {
		switch {
		case text[n] == 'Z' && n > len(mark):
			return n + 1
		case text[n] < 'A' || text[n] > 'I':
			return 0
		}
	}
	return 0
}

// indent is [\t\n]|\ {4}|\ {2} .
func indent(text string) int {
	switch {
	case text[0] == '\t' || text[0] == '\n':
		return 1
	case strings.HasPrefix(text, "    "):
		return 4
	case strings.HasPrefix(text, "  "):
		return 2
	}
	return 0
}

// punctMark is [\p{P}!-/:-@\[-`{-~].
func punctMark(text string) int {
	_, c, size := firstClass(text)
	if c == classPunct || c == classSymbol && size == 1 {
		return size
	}
	return 0
}

// threeDigits is [0-9][0-9][0-9].
func threeDigits(text string) int {
	if len(text) < 3 {
		return 0
	}
	for i := range 3 {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
	}
	return 3
}

// punctuation is [\p{P}symbols]+.
func punctuation(symbols string) matchFunc {
	return func(text string) int {
		n := 0
		for {
			r, c, size := firstClass(text[n:])
			if c != classPunct && (c != classSymbol || !strings.ContainsRune(symbols, r)) {
				return n
			}
			n += size
		}
	}
}
