package training

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/tokenizer"
)

// trainedMarks are around what is trained in a sample that is shown.
var trainedMarks = data.Marks{Begin: "«", End: "»"}

// What is shown of a sample, in characters: of each stretch of text that is trained or not
// its ends, and of the whole its beginning.
const (
	shownOfStretch = 160
	shownOfSample  = 800
)

// showFirst writes the first sample of records: a wrong template or mask is seen in it.
func showFirst(w io.Writer, t *tokenizer.Tokenizer, d *data.Dataset) error {
	row, err := d.Row(0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "the first sample, trained where it is in «»:\n%s\n", preview(t, row[0]))
	return err
}

// stretch matches text between marks, with the mark before it.
var stretch = regexp.MustCompile(`[«»]?[^«»]*`)

// preview is the text of a sample with marks, shortened.
func preview(t *tokenizer.Tokenizer, s data.Sample) string {
	var b strings.Builder
	shown := 0
	for _, part := range stretch.FindAllString(printable(data.FormatSample(t, s, trainedMarks)), -1) {
		characters := []rune(part)
		if half := shownOfStretch / 2; len(characters) > shownOfStretch {
			part = string(characters[:half]) + "…" + string(characters[len(characters)-half:])
		}
		if shown += min(len(characters), shownOfStretch); shown > shownOfSample {
			b.WriteString("…")
			break
		}
		b.WriteString(part)
	}
	return strings.TrimRight(b.String(), "\n")
}

// printable replaces control characters, which move the cursor of a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
