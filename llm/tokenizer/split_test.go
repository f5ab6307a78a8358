package tokenizer

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/dlclark/regexp2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/need"
)

// regexSplit is the reference: it cuts text into the matches of each pattern and the text between them, one pattern
// after the other.
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

// splitRegexes are the patterns as llama.cpp writes them, one after the other,
// for one name of each. It takes all kinds of letters for \p{L}, \d for [0-9],
// and \p{Han} for blocks of code points.
var splitRegexes = func() map[string][]string {
	const (
		gpt2     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
		fold     = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
		lines    = `|\s*[\r\n]+|\s+(?!\S)|\s+`
		rest     = `| ?[^\s\p{L}\p{N}]+[\r\n]*`
		restPath = `| ?[^\s\p{L}\p{N}]+[\r\n/]*`
		word     = `|[^\r\n\p{L}\p{N}]?\p{L}+`
		qwen2    = fold + word + `|\p{N}` + rest + lines
		llama3   = fold + word + `|\p{N}{1,3}` + rest + lines

		lead   = `[^\r\n\p{L}\p{N}]?`
		big    = `((?=[\p{L}])([^a-z]))`
		small  = `((?=[\p{L}])([^A-Z]))`
		bigM   = `((?=[\p{L}\p{M}])([^a-z]))`
		smallM = `((?=[\p{L}\p{M}])([^A-Z]))`
		marked = lead + `[\p{L}\p{M}]*[\p{L}\p{M}]+` + fold + `?|` + lead + `[\p{L}\p{M}]+[\p{L}\p{M}]*` + fold + `?`

		ascii    = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+"
		deepWord = `|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`
		deepseek = ascii + deepWord + `| ?[\p{P}\p{S}]+[\r\n]*` + lines
		kana     = `[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+`
		cjk      = `[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF-[\s]]+`
		groups   = `[^\p{N}]*\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))` // the first with the text before it
		sentence = ` ?[^(\s|.,!?…。，、।۔،)]+`
		// Escapes of the oracle are of UTF-16.
		han    = `\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF` + "\U00020000-\U0002A6DF\U0002A700-\U0002EBEF\U0002F800-\U0002FA1F"
		nonHan = `[\p{L}-[` + han + `]]`
	)
	jais2 := strings.TrimSuffix(llama3, `|\s+(?!\S)|\s+`)
	for n := 512; n > 2; n /= 2 {
		jais2 += fmt.Sprintf(`|\s{%d}(?!\S)`, n)
	}
	return map[string][]string{
		"gpt-2":     {gpt2},
		"llama-bpe": {llama3},
		"qwen2":     {qwen2},
		"qwen35":    {fold + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + lines},
		"smollm":    {`\p{N}`, gpt2},
		"falcon":    {"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2, `[0-9][0-9][0-9]`},
		"default":   {`[\p{P}\$\+<=>\^~\|]+`, gpt2, `\p{N}+`, `[0-9][0-9][0-9]`},

		"ufakzeka":   {`[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}` + rest + lines},
		"seed-coder": {fold + word + `|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+` + lines},
		"bailingmoe": {`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])` + word + `|\p{N}` + rest + `|\s*[\r\n]|\s+(?!\S)|\s+`},
		"minicpm5":   {`\p{N}{1,3}`, fold + word + `|\p{N}+` + rest + lines},
		"jais-2":     {jais2 + `|\s{1,2}(?!\S)|\s{1}`},
		"laguna":     {`[^\n]+|[\n]+`, qwen2},
		"k2-horizon": {fold + `|'ſ|[^\r\n\p{L}\p{N}]?(?:\p{L}|\p{M}|\u200C|\u200D)+|\p{N}{1,3}` + rest + lines},
		"exaone-moe": {fold + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`},

		"tekken": {lead + big + `*` + small + `+|` + lead + big + `+` + small + `*|\p{N}` + restPath + lines},
		"gpt-4o": {lead + big + `*` + small + `+` + fold + `?|` + lead + big + `+` + small + `*` + fold + `?|\p{N}{1,3}` + restPath + lines},
		"granite-embed-multi-97m": {lead + bigM + `*` + smallM + `+` + fold + `?|` + lead + bigM + `+` + smallM + `*` + fold + `?|\p{N}{1,3}` +
			restPath + lines},
		"tiny_aya": {groups, marked + `|\p{N}{1,3}` + restPath + lines},
		"kimi-k2":  {`[` + han + `]+|[^\r\n\p{L}\p{N}` + han + `]?` + nonHan + `+` + fold + `?|\p{N}{1,3}` + rest + lines},
		"youtu":    {`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|` + kana, marked + `|\p{N}` + restPath + lines},

		"deepseek-coder": {`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, cjk, `\p{N}`},
		"deepseek-llm":   {`[\r\n]`, `\s?[` + casedLetters + `]+`, `\s?[!-/:-~！-／：-～‘-‟、。]+`, `\s+$`, cjk, `\p{N}+`},
		"deepseek-v3":    {`\p{N}{1,3}`, kana, deepseek},
		"spark2_5":       {`\p{N}{1,3}`, kana, ascii + deepWord + `| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`, `\p{N}`},
		"afmoe": {groups,
			`[一-鿿㐀-䶿\u8C48-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+`, deepseek},

		"bloom":     {sentence},
		"viking":    {sentence, `\p{N}`},
		"chameleon": {`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`, "[\\p{P}!-/:-@\\[-`{-~]", gpt2},
		"gemma4":    {`[^\n]+|[\n]+`},
		"mmbert":    {`[^\n]+|[\n]+`, `▁[^▁]*`},
		"superbpe":  {`\p{N}+`, `(?=([0-9]{3})+(?![0-9]))`},
	}
}()

func TestSplitMatchesRegex(t *testing.T) {
	bit := rapid.OneOf(
		rapid.SampledFrom([]string{" ", " ", "  ", "\n", "\r", "\t", "\u00a0", "\u0085", "'", "'s", "'Ve", "'lL", "a", "Zé", "ſ",
			"B", "ABc", "É", "1", "23", "٣", "²", ".", ",-", "+", "$", "`", "~|", "/", "\u0301", "\u200d", "日", "カ", "ก", "한", "，", "😀", "\x00",
			"IMGIMGAB", "Z", "▁", "<sentinel:12>"}),
		rapid.StringN(1, 2, 8))
	for name, exprs := range splitRegexes {
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

// TestSplitIsLinear would take hours if any pattern were quadratic.
func TestSplitIsLinear(t *testing.T) {
	need.Time(t, "splits megabytes")
	const size = 1 << 18
	for name := range splitRegexes {
		for _, unit := range []string{" ", "a", "A", "É", "ÉA", "7", "\n", "\n ", "'", ".", "/", "日", "a b", "\x00", "\u0301", "IMG"} {
			start, n := time.Now(), 0
			preRules[name].split(strings.Repeat(unit, size/len(unit))+"x", func(word string) { n += len(word) })
			require.Equal(t, size/len(unit)*len(unit)+1, n)
			require.Less(t, time.Since(start), 20*time.Second, "%s on %q", name, unit)
		}
	}
}

// TestClasses checks the table against the functions of package unicode.
func TestClasses(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		want := classOther
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.White_Space, r):
			want = classSpace
		case r >= 'A' && r <= 'Z':
			want = classUpper
		case r >= 'a' && r <= 'z':
			want = classLower
		case unicode.IsLetter(r):
			want = classLetter
			if hanRanges.has(r) {
				want = classHan
			}
		case unicode.IsNumber(r):
			want = classNumber
		case unicode.IsMark(r):
			want = classMark
		case unicode.IsPunct(r):
			want = classPunct
		case unicode.IsSymbol(r):
			want = classSymbol
		case r == zeroWidthJoiner || r == zeroWidthNonJoiner:
			want = classJoiner
		}
		for _, c := range newChars {
			if r >= c.first && r <= c.last {
				want = c.class
			}
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
	cfg := need.Value(TrainBPE(func(yield func(string) bool) {
		yield(strings.Repeat("abracadabra banana abba aaaa ", 9))
	}, TrainOptions{VocabSize: 300}))(t)
	tok := need.Value(New(cfg))(t)
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
