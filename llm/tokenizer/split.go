package tokenizer

import "unicode/utf8"

// A splitter cuts text into words and yields them in order; together they are the text. Merges never cross a word.
// Each takes time linear in the text.
type splitter func(text string, yield func(word string))

// A matchFunc returns the length of a match at the start of a text, or 0. The text is never empty.
type matchFunc func(text string) int

// isolate returns a splitter that yields each match as a word, and the text between matches as one word. The first
// alternative that matches counts.
func isolate(alternatives ...matchFunc) splitter {
	match := firstOf(alternatives)
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

func firstOf(alternatives []matchFunc) matchFunc {
	if len(alternatives) == 1 {
		return alternatives[0]
	}
	return func(text string) int {
		for _, match := range alternatives {
			if n := match(text); n > 0 {
				return n
			}
		}
		return 0
	}
}

// inTurn splits with the first splitter, then each of its words with the next, and so on.
func inTurn(first splitter, others ...splitter) splitter {
	if len(others) == 0 {
		return first
	}
	then := inTurn(others[0], others[1:]...)
	return func(text string, yield func(string)) {
		first(text, func(word string) { then(word, yield) })
	}
}

func firstClass(text string) (r rune, c class, size int) {
	r, size = decodeRune(text)
	if size == 0 {
		return r, classEnd, 0
	}
	return r, classOf(r), size
}

// run returns the length of the longest prefix of characters in a set.
func run(text string, set classSet) int {
	n := 0
	for n < len(text) {
		if b := text[n]; b < utf8.RuneSelf {
			if !set.has(asciiClass[b]) {
				return n
			}
			n++
			continue
		}
		r, size := decodeRune(text[n:])
		if !set.has(classOf(r)) {
			return n
		}
		n += size
	}
	return n
}

// upTo is run for at most limit characters.
func upTo(text string, set classSet, limit int) int {
	n := 0
	for ; limit > 0; limit-- {
		_, c, size := firstClass(text[n:])
		if !set.has(c) {
			return n
		}
		n += size
	}
	return n
}

// runOf matches a run of characters in a set.
func runOf(set classSet) matchFunc {
	return func(text string) int { return run(text, set) }
}

// numbers matches \p{N}{1,limit}.
func numbers(limit int) matchFunc {
	return func(text string) int { return upTo(text, numberSet, limit) }
}

// afterSpace matches match, optionally after one white-space character.
func afterSpace(match matchFunc) matchFunc {
	return func(text string) int {
		_, c, size := firstClass(text)
		if c != classSpace {
			return match(text)
		}
		if size == len(text) {
			return 0
		}
		if n := match(text[size:]); n > 0 {
			return size + n
		}
		return 0
	}
}
