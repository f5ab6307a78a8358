package training

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/goggml/ggml/examples/internal/cli"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Limits of a preview, in characters. Long words of a message are cut in the middle, mark-up is shown whole,
// and the sample is cut at its end.
const (
	shownOfWords  = 160
	shownOfSample = 1200
)

// showFirst prints the first sample of records, which reveals a wrong template or mask.
func showFirst(w io.Writer, t *tokenizer.Tokenizer, d *data.Dataset) error {
	row, err := d.Row(0)
	if err != nil {
		return err
	}
	names := []string{"the first sample"}
	switch last := row[len(row)-1].Label; {
	case last == data.Mismatched:
		names = []string{labelledName(row[0]), "its prompt with the answer of another record"}
	case len(row) == 2:
		names = []string{"the chosen answer of the first pair", "the rejected answer"}
	case last != data.Unlabelled:
		names[0] = labelledName(row[0])
	}
	for i, name := range names {
		if _, err := fmt.Fprintf(w, "%s:\n%s\n", PreviewHeading(name, d.Place(row[i])), Preview(t, row[i])); err != nil {
			return err
		}
	}
	return nil
}

func labelledName(s data.Sample) string {
	if s.Label == data.Desirable {
		return "the first answer, desirable"
	}
	return "the first answer, undesirable"
}

// PreviewHeading returns the heading of a preview: the name of the sample, and its place if it is known.
func PreviewHeading(name, place string) string {
	if place != "" {
		name += ", " + place
	}
	return name + ", trained parts in «»"
}

// Preview returns the text of a sample with marks around the trained parts. It shortens long words of the
// record, never the mark-up between them. Without a template, every text between special tokens counts as words.
func Preview(t *tokenizer.Tokenizer, s data.Sample) string {
	var b strings.Builder
	shown, open := 0, false
	for from := 0; from < len(s.Tokens); {
		trained, isWords, to := isTrained(s, from), isWord(t, s, from), from+1
		for to < len(s.Tokens) && isTrained(s, to) == trained && isWord(t, s, to) == isWords {
			to++
		}
		text := []rune(printable(decode(t, s.Tokens[from:to])))
		isLast := shown >= shownOfSample
		if open && (isLast || !trained) {
			b.WriteString("»")
		} else if trained && !open && !isLast {
			b.WriteString("«")
		}
		if isLast {
			fmt.Fprintf(&b, "… (%s left out)", cli.Count(len(s.Tokens)-from, "token"))
			return b.String()
		}
		if isWords {
			text = shorten(text)
		}
		b.WriteString(string(text))
		shown, open, from = shown+len(text), trained, to
	}
	if open {
		b.WriteString("»")
	}
	return strings.TrimRight(b.String(), "\n")
}

// A Chunk is the text of consecutive tokens of a sample that are all trained, or all not.
type Chunk struct {
	Text    string
	Trained bool
}

// Chunks returns the whole text of a sample.
func Chunks(t *tokenizer.Tokenizer, s data.Sample) (list []Chunk) {
	for from := 0; from < len(s.Tokens); {
		trained, to := isTrained(s, from), from+1
		for to < len(s.Tokens) && isTrained(s, to) == trained {
			to++
		}
		list = append(list, Chunk{printable(decode(t, s.Tokens[from:to])), trained})
		from = to
	}
	return list
}

func isTrained(s data.Sample, i int) bool {
	return i > 0 && (s.LossWeights == nil || s.LossWeights[i-1] > 0)
}

// isWord reports whether a token belongs to the words of a record.
func isWord(t *tokenizer.Tokenizer, s data.Sample, i int) bool {
	if s.Words == nil {
		return !t.IsSpecial(s.Tokens[i])
	}
	return s.Words[i]
}

// decode returns the text of tokens, with special tokens by name.
func decode(t *tokenizer.Tokenizer, ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.Write(t.Piece(id))
	}
	return strings.ToValidUTF8(b.String(), "\ufffd") // a sample may end within a character
}

// shorten cuts the middle out of a text, and notes how many characters.
func shorten(text []rune) []rune {
	const half = shownOfWords / 2
	left := len(text) - 2*half
	if left <= half/2 { // the note would be longer than the cut
		return text
	}
	return slices.Concat(text[:half], []rune("… ("+cli.Count(left, "character")+" left out) …"), text[len(text)-half:])
}

// printable replaces control characters, which would move the cursor of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
