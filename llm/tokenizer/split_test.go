package tokenizer

import (
	"strings"
	"testing"
	"unicode"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// regexSplit is the reference: it cuts text into the matches of each pattern
// and what is between them, one pattern after the other.
func regexSplit(t require.TestingT, text string, patterns []*regexp2.Regexp) []string {
	words := []string{text}
	for _, re := range patterns {
		var next []string
		for _, word := range words {
			runes := []rune(word)
			pos := 0
			m, err := re.FindRunesMatch(runes)
			for ; m != nil; m, err = re.FindNextMatch(m) {
				require.NoError(t, err)
				if m.Index > pos {
					next = append(next, string(runes[pos:m.Index]))
				}
				next = append(next, m.String())
				pos = m.Index + m.Length
			}
			if pos < len(runes) {
				next = append(next, string(runes[pos:]))
			}
		}
		words = next
	}
	return words
}

func TestSplitMatchesRegex(t *testing.T) {
	const (
		gpt2   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
		fold   = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|`
		llama3 = fold + `[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		qwen2  = fold + `[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
		qwen35 = fold + `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	)
	patterns := map[string][]string{
		"gpt-2":     {gpt2},
		"llama-bpe": {llama3},
		"qwen2":     {qwen2},
		"qwen35":    {qwen35},
		"smollm":    {`\p{N}`, gpt2},
		"falcon":    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2, `[0-9][0-9][0-9]`},
		"default":   {`[\p{P}\$\+<=>\^~\|]+`, gpt2, `\p{N}+`, `[0-9][0-9][0-9]`},
	}
	bit := rapid.OneOf(
		rapid.SampledFrom([]string{" ", " ", "  ", "\n", "\r", "\t", "\u00a0", "\u0085", "'", "'s", "'Ve", "'lL", "a", "Zé", "ſ",
			"1", "23", "٣", "²", ".", ",-", "+", "$", "`", "~|", "\u0301", "\u200d", "日", "😀", "\x00"}),
		rapid.StringN(1, 2, 8))
	for name, exprs := range patterns {
		t.Run(name, func(t *testing.T) {
			var regexes []*regexp2.Regexp
			for _, expr := range exprs {
				regexes = append(regexes, regexp2.MustCompile(expr, regexp2.None))
			}
			rapid.Check(t, func(rt *rapid.T) {
				text := strings.Join(rapid.SliceOfN(bit, 0, 16).Draw(rt, "bits"), "")
				var got []string
				preRules[name].split(text, func(word string) { got = append(got, word) })
				var want []string
				for _, word := range regexSplit(rt, text, regexes) {
					if word != "" {
						want = append(want, word)
					}
				}
				require.Equal(rt, want, got, "%q", text)
			})
		})
	}
}

// TestClasses checks the table against the functions of package unicode.
func TestClasses(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := classOther
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.White_Space, r):
			want = classSpace
		case unicode.IsLetter(r) || r >= extensionIFirst && r <= extensionILast:
			want = classLetter
		case unicode.IsNumber(r):
			want = classNumber
		case unicode.IsMark(r):
			want = classMark
		case unicode.IsPunct(r):
			want = classPunct
		}
		if got := classOf(r); got != want {
			t.Fatalf("class of %U is %d, want %d", r, got, want)
		}
	}
}

func TestByteEncoding(t *testing.T) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	text := encodeBytes(string(all))
	require.Len(t, []rune(text), 256)
	require.Equal(t, "ĠA", encodeBytes(" A"))
	raw, ok := decodeBytes(text)
	require.True(t, ok)
	require.Equal(t, string(all), raw)
	_, ok = decodeBytes("a b")
	require.False(t, ok, "a space stands for no byte")
}

func TestSanitize(t *testing.T) {
	for text, want := range map[string]string{
		"ok é":                  "ok é",
		"\xff\x80":              "\uFFFD\uFFFD",
		"\xe2\x82":              "\uFFFD\uFFFD",
		"\xc0\x80":              "\uFFFD\uFFFD",
		"\xf4\x90\x80\x80":      "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xed\xa0\x80":          "\xed\xa0\x80",
		"a\xed\xa0":             "a\uFFFD\uFFFD",
		"\uFFFD\xff\U0010FFFFx": "\uFFFD\uFFFD\U0010FFFFx",
	} {
		require.Equal(t, want, sanitize(text), "%q", text)
	}
}

func TestMergeShortIsMergeLong(t *testing.T) {
	cfg, err := TrainBPE(func(yield func(string) bool) {
		yield(strings.Repeat("abracadabra banana abba aaaa ", 9))
	}, TrainOptions{VocabSize: 300})
	require.NoError(t, err)
	tok, err := New(cfg)
	require.NoError(t, err)
	b := tok.model.(*bpe)
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.StringMatching(`[abrcdn ]{0,60}`).Draw(rt, "word")
		short, long := bpeMerger{bpe: b}, bpeMerger{bpe: b}
		for i := range len(word) {
			short.sequence = append(short.sequence, b.bytes[word[i]])
			long.sequence = append(long.sequence, b.bytes[word[i]])
		}
		short.mergeShort()
		long.mergeLong()
		require.Equal(rt, short.sequence, long.sequence)
	})
}
