package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// splitter cuts text into words and yields them in order; together they are
// the text. Merges never cross a word. Each takes time linear in the text.
type splitter func(text string, yield func(word string))

// preRule is what a pre-tokenizer name implies.
type preRule struct {
	split        splitter
	ignoreMerges bool // a word that is a token as a whole is not merged
	addBOS       bool // default of Config.AddBOS
	noBOS        bool // no default BOS id
	cleanSpaces  bool // decoding drops spaces before punctuation
}

// The split patterns, as regular expressions:
//
//	gpt-2:     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//	llama-bpe: (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//	qwen2:     as llama-bpe with \p{N} for \p{N}{1,3}
//	qwen35:    as qwen2 with [\p{L}\p{M}] for \p{L}
//	smollm:    \p{N} alone, then gpt-2 on the rest
//	falcon:    runs of punctuation, then gpt-2, then [0-9][0-9][0-9]
//	default:   runs of punctuation, then gpt-2, then \p{N}+, then [0-9][0-9][0-9]
//
// where "then" splits further within the words of the step before.
var (
	splitGPT2    = words(gpt2Word)
	splitLlama3  = words(letterRule{digits: 3}.word)
	splitQwen2   = words(letterRule{digits: 1}.word)
	splitQwen35  = words(letterRule{digits: 1, marks: true}.word)
	splitSmol    = then(isolate(oneNumber), splitGPT2)
	splitFalcon  = then(isolate(punctuation(falconSymbols)), then(splitGPT2, isolate(threeDigits)))
	splitDefault = then(isolate(punctuation(defaultSymbols)), then(splitGPT2, then(isolate(numbers), isolate(threeDigits))))
)

const (
	defaultSymbols = "$+<=>^~|"
	falconSymbols  = defaultSymbols + "`"
)

// preRules has the names of tokenizer.ggml.pre that share the patterns above.
var preRules = func() map[string]preRule {
	rules := map[string]preRule{}
	add := func(rule preRule, names string) {
		for _, name := range strings.Fields(names) {
			rules[name] = rule
		}
	}
	add(preRule{split: splitDefault, cleanSpaces: true}, "default")
	add(preRule{split: splitGPT2, cleanSpaces: true}, "gpt-2 gpt2 phi-2 gigachat mpt olmo jais exaone4 a.x-4.0 mellum modern-bert")
	add(preRule{split: splitGPT2}, "trillion granite-docling")
	add(preRule{split: splitLlama3, ignoreMerges: true, addBOS: true, cleanSpaces: true},
		"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2")
	add(preRule{split: splitLlama3, cleanSpaces: true}, "dbrx smaug-bpe")
	add(preRule{split: splitLlama3, cleanSpaces: true, noBOS: true}, "glm4 chatglm-bpe")
	add(preRule{split: splitQwen2}, "qwen2 deepseek-r1-qwen hunyuan solar-open grok-2")
	add(preRule{split: splitQwen2, cleanSpaces: true}, "stablelm2 megrez")
	add(preRule{split: splitQwen35}, "qwen35")
	add(preRule{split: splitSmol}, "smollm command-r")
	add(preRule{split: splitSmol, cleanSpaces: true}, "starcoder refact codeshell exaone minerva-7b")
	add(preRule{split: splitFalcon, cleanSpaces: true}, "falcon")
	return rules
}()

// canonicalPre turns what people write into the name that GGUF readers know.
func canonicalPre(pre string) string {
	switch pre {
	case "":
		return "default"
	case "gpt2":
		return "gpt-2"
	}
	return pre
}

func lookupPre(pre string) (preRule, error) {
	rule, ok := preRules[canonicalPre(pre)]
	if !ok {
		return preRule{}, fmt.Errorf("tokenizer: pre-tokenizer %q is not supported, known are: %s",
			pre, strings.Join(PreTokenizers(), ", "))
	}
	return rule, nil
}

// Patterns look at most this many bytes beyond a word, and at the white space
// after it.
const lookahead = 8

func (b *bpe) settled(text string) int {
	end := max(0, len(text)-lookahead)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return len(strings.TrimRightFunc(text[:end], isSpace))
}

// contextChars are as many characters of a run (of letters, numbers or others)
// as it takes for patterns to go on with the run: two may start a word of their
// own, such as "'s", and three digits be isolated.
const contextChars = 16

func (b *bpe) inside(text string) int {
	end := len(text)
	for range contextChars {
		r, n := utf8.DecodeLastRuneInString(text[:end])
		if n == 0 || isSpace(r) {
			return 0 // white space is looked through to its end
		}
		end -= n
	}
	return end
}

func isSpace(r rune) bool { return classOf(r) == classSpace }

// words makes a splitter of a function that gives the length of the first word.
func words(length func(text string) int) splitter {
	return func(text string, yield func(string)) {
		for text != "" {
			n := length(text)
			yield(text[:n])
			text = text[n:]
		}
	}
}

// isolate makes a splitter that yields each match as a word of its own, and
// the text between matches whole. match gives the length of a match at the
// start of the text, 0 for none.
func isolate(match func(text string) int) splitter {
	return func(text string, yield func(string)) {
		pos := 0
		for pos < len(text) {
			n := match(text[pos:])
			if n == 0 {
				_, size := decodeRune(text[pos:])
				pos += size
				continue
			}
			if pos > 0 {
				yield(text[:pos])
			}
			yield(text[pos : pos+n])
			text, pos = text[pos+n:], 0
		}
		if text != "" {
			yield(text)
		}
	}
}

// then splits with first and each word of it with second.
func then(first, second splitter) splitter {
	return func(text string, yield func(string)) {
		first(text, func(word string) { second(word, yield) })
	}
}

func firstClass(text string) (r rune, c class, size int) {
	r, size = decodeRune(text)
	if size == 0 {
		return r, classEnd, 0
	}
	return r, classOf(r), size
}

// run is the length of the longest prefix whose code points all satisfy in.
func run(text string, in func(class) bool) int {
	n := 0
	for {
		_, c, size := firstClass(text[n:])
		if size == 0 || !in(c) {
			return n
		}
		n += size
	}
}

func isLetter(c class) bool { return c == classLetter }
func isNumber(c class) bool { return c == classNumber }

// isRest is [^\s\p{L}\p{N}].
func isRest(c class) bool { return c == classOther || c == classMark || c == classPunct }

// contraction is the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of
// text, 0 for none; fold accepts capitals too.
func contraction(text string, fold bool) int {
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

// spaces measures the white space that text starts with: its length, the
// length without its last character, and the length through its last CR or LF.
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

// spaceWord is \s+(?!\S)|\s+ : the last space before a word belongs to the word.
func spaceWord(text string, all, butLast int) int {
	if all < len(text) && butLast > 0 {
		return butLast
	}
	return all
}

func gpt2Word(text string) int {
	if n := contraction(text, false); n > 0 {
		return n
	}
	rest, lead := text, 0
	if text[0] == ' ' {
		rest, lead = text[1:], 1
	}
	_, c, _ := firstClass(rest)
	switch {
	case c == classLetter:
		return lead + run(rest, isLetter)
	case c == classNumber:
		return lead + run(rest, isNumber)
	case isRest(c):
		return lead + run(rest, isRest)
	}
	all, butLast, _ := spaces(text)
	return spaceWord(text, all, butLast)
}

// letterRule is the family of patterns that Llama 3 started.
type letterRule struct {
	digits int  // longest run of digits in a word
	marks  bool // combining marks count as letters
}

func (l letterRule) isLetter(c class) bool {
	return c == classLetter || l.marks && c == classMark
}

func (l letterRule) isRest(c class) bool { return isRest(c) && !l.isLetter(c) }

func (l letterRule) word(text string) int {
	if n := contraction(text, true); n > 0 {
		return n
	}
	r, c, size := firstClass(text)
	if c == classNumber {
		n := size
		for i := 1; i < l.digits; i++ {
			_, next, size := firstClass(text[n:])
			if next != classNumber {
				break
			}
			n += size
		}
		return n
	}
	if r != '\r' && r != '\n' {
		if _, next, _ := firstClass(text[size:]); l.isLetter(c) || l.isLetter(next) {
			return size + run(text[size:], l.isLetter)
		}
	}
	rest, lead := text, 0
	if r == ' ' {
		rest, lead = text[1:], 1
	}
	if n := run(rest, l.isRest); n > 0 {
		n += lead
		for n < len(text) && (text[n] == '\r' || text[n] == '\n') {
			n++
		}
		return n
	}
	all, butLast, newline := spaces(text)
	if newline > 0 {
		return newline
	}
	return spaceWord(text, all, butLast)
}

// oneNumber is \p{N}.
func oneNumber(text string) int {
	if _, c, size := firstClass(text); c == classNumber {
		return size
	}
	return 0
}

// numbers is \p{N}+.
func numbers(text string) int { return run(text, isNumber) }

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
func punctuation(symbols string) func(text string) int {
	return func(text string) int {
		n := 0
		for {
			r, c, size := firstClass(text[n:])
			if c != classPunct && (c != classOther || !strings.ContainsRune(symbols, r)) {
				return n
			}
			n += size
		}
	}
}
