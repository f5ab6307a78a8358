package chat

import (
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/goggml/ggml/internal/jinja"
)

// isWord reports whether a span consists of words of message i.
func (s Span) isWord(i int) bool { return s.Message == i && !s.Source.isFrame() }

// chunks returns, for each message, the maximal parts of the text that contain its bytes and no bytes of another
// message, as ranges of spans.
func (r *Rendered) chunks() map[int][][]Span {
	chunks := map[int][][]Span{}
	from, to := -1, -1 // indices of Spans
	flush := func() {
		if from >= 0 {
			i := r.Spans[from].Message
			chunks[i] = append(chunks[i], r.Spans[from:to])
		}
		from = -1
	}
	for n, span := range r.Spans {
		if span.Message < 0 && span.Source.isFrame() {
			continue
		}
		if from >= 0 && span.Message != r.Spans[from].Message {
			flush()
		}
		if span.Message < 0 {
			continue
		}
		if from < 0 {
			from = n
		}
		to = n + 1
	}
	flush()
	return chunks
}

// prefer returns the chunks with a span for which has holds, or all chunks if there are none.
func prefer(chunks [][]Span, has func(Span) bool) [][]Span {
	var kept [][]Span
	for _, p := range chunks {
		if slices.ContainsFunc(p, has) {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return chunks
	}
	return kept
}

// turnChunks returns the chunks that form the turn of message i: preferably chunks with words and mark-up. Other chunks
// are quotations in another turn.
func turnChunks(i int, chunks [][]Span) [][]Span {
	chunks = prefer(chunks, func(s Span) bool { return s.isWord(i) })
	return prefer(chunks, func(s Span) bool { return s.Message == i && s.Source == Markup })
}

// edges returns where the mark-up before the first word of a chunk begins and ends, and where the last word ends, or -1
// if the chunk has no words.
func (r *Rendered) edges(i int, chunk []Span) (begin, firstWord, lastWord int) {
	begin, firstWord, lastWord = chunk[0].From, chunk[len(chunk)-1].To, -1
	for _, span := range chunk {
		if span.isWord(i) {
			firstWord = min(firstWord, span.From)
			lastWord = span.To
		}
	}
	if !hasMarkup(chunk, i) {
		begin = r.wordsEnd(begin) // the mark-up before belongs to no message
	}
	return begin, firstWord, lastWord
}

// hasMarkup reports whether a chunk contains mark-up of message i.
func hasMarkup(chunk []Span, i int) bool {
	return slices.ContainsFunc(chunk, func(s Span) bool { return s.Source == Markup && s.Message == i })
}

// turn returns the trained bytes of message i, given its chunks.
func (r *Rendered) turn(i int, chunks [][]Span, marks *turnMarkup) []byteRange {
	var out []byteRange
	for _, chunk := range turnChunks(i, chunks) {
		begin, firstWord, lastWord := r.edges(i, chunk)
		end := chunk[len(chunk)-1].To
		if lastWord >= 0 && !hasMarkup(chunk, i) { // the mark-up behind belongs to no message
			if n := strings.Index(r.Text[end:r.nextWord(end)], marks.closing); marks.closing != "" && n >= 0 {
				end += n + len(marks.closing)
			}
		}
		length, rest := header(r.Text[begin:firstWord], r.opening(i, marks))
		from := begin + length
		if from == firstWord && strings.HasPrefix(r.Text[from:end], rest) {
			from += len(rest) // the words repeat the end of the prompt, such as <think>
		}
		if begin < chunk[0].From && from == begin {
			from = firstWord
		}
		if lastWord < 0 {
			lastWord = from
		}
		if to := r.endOfTurn(lastWord, end, marks); from < to {
			out = append(out, byteRange{from, to})
		}
	}
	return out
}

// header returns how much of frame, the mark-up before the first word, is the turn's header, and the rest of opening
// that frame does not contain.
func header(frame, opening string) (length int, rest string) {
	if opening == "" {
		return 0, ""
	}
	if i := strings.LastIndex(frame, opening); i >= 0 {
		return i + len(opening), ""
	}
	space := len(frame) - len(strings.TrimLeftFunc(frame, jinja.IsSpace))
	opening = strings.TrimLeftFunc(opening, jinja.IsSpace)
	n := commonMarkup(frame[space:], opening)
	if n == 0 {
		return 0, ""
	}
	return space + n, opening[n:]
}

// commonMarkup returns the length of the common prefix of a and b. It does not split a token such as <|user|> or
// [INST].
func commonMarkup(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for n < len(a) && n > 0 && !utf8.RuneStart(a[n]) {
		n--
	}
	if n == len(a) || n == len(b) {
		return n
	}
	if i := strings.LastIndexAny(a[:n], "<["); i >= 0 && !strings.ContainsAny(a[i:n], ">]") {
		return i
	}
	return n
}

// tokenPattern matches the text of a mark-up token.
var tokenPattern = regexp.MustCompile(`^(?:<[^<>\s]+>|\[[^\[\]\s]+\])`)

// firstToken returns the token at the beginning of mark-up, or all of the mark-up.
func firstToken(markup string) string {
	markup = strings.TrimFunc(markup, jinja.IsSpace)
	if token := tokenPattern.FindString(markup); token != "" {
		return token
	}
	return markup
}

// endOfTurn returns the end of a turn, given the end of its words and the end of its mark-up.
func (r *Rendered) endOfTurn(lastWord, end int, marks *turnMarkup) int {
	tail := r.Text[lastWord:end]
	if n := r.endToken(tail); n > 0 {
		return lastWord + n
	}
	if end == len(r.Text) {
		tail = strings.TrimSuffix(tail, marks.prompt)
	}
	to := lastWord + len(strings.TrimRightFunc(tail, jinja.IsSpace))
	if token := strings.TrimFunc(tail, jinja.IsSpace); token != "" && token != marks.closing && slices.Contains(r.endTokens(), marks.closing) && token == r.past(marks) {
		return lastWord
	}
	tokens := []string{marks.closing}
	if to == lastWord { // the template ends turns where the next begins
		tokens = append(r.endTokens(), marks.closing)
	}
	rest := r.Text[end:r.nextWord(end)]
	space := len(rest) - len(strings.TrimLeftFunc(rest, jinja.IsSpace))
	for _, token := range tokens {
		if token != "" && strings.HasPrefix(rest[space:], token) && !strings.Contains(tail, token) {
			return end + space + len(token)
		}
	}
	return to
}

// wordsEnd returns the end of the last words that begin before byte at.
func (r *Rendered) wordsEnd(at int) int {
	before := sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].From >= at })
	for _, span := range slices.Backward(r.Spans[:before]) {
		if !span.Source.isFrame() {
			return span.To
		}
	}
	return 0
}

// nextWord returns the beginning of the first words from byte at on.
func (r *Rendered) nextWord(at int) int {
	from := sort.Search(len(r.Spans), func(i int) bool { return r.Spans[i].From >= at })
	for _, span := range r.Spans[from:] {
		if !span.Source.isFrame() {
			return span.From
		}
	}
	return len(r.Text)
}

// endTokens returns the texts that end a turn.
func (r *Rendered) endTokens() []string {
	tokens := slices.Clone(r.options.EndOfTurn)
	if eos, ok := r.options.Variables["eos_token"].(string); ok {
		tokens = append(tokens, eos)
	}
	return slices.DeleteFunc(tokens, func(s string) bool { return s == "" })
}

// endToken returns the length of tail up to and including the first token that ends a turn, or 0.
func (r *Rendered) endToken(tail string) int {
	end, _ := r.findEndToken(tail)
	return end
}

// findEndToken returns the first token of tail that ends a turn, and its end; 0 and "" if there is none.
func (r *Rendered) findEndToken(tail string) (end int, token string) {
	for _, t := range r.endTokens() {
		if i := strings.Index(tail, t); i >= 0 && (end == 0 || i+len(t) < end) {
			end, token = i+len(t), t
		}
	}
	return end, token
}

// trailingPrompt returns the generation prompt if the text ends with it, or "".
func (r *Rendered) trailingPrompt() string {
	if prompt := r.prompt(); strings.HasSuffix(r.Text, prompt) {
		return prompt
	}
	return ""
}
