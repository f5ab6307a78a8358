package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ID is a token id: an index into the vocabulary.
type ID = int32

// None is the id of a special token that the vocabulary lacks.
const None ID = -1

// Tokenizer models, the values of tokenizer.ggml.model.
const (
	ModelSPM    = "llama"  // SentencePiece-style merging by piece score
	ModelBPE    = "gpt2"   // byte-level byte-pair encoding by merge rank
	ModelGemma4 = "gemma4" // byte-pair encoding of characters by merge rank
	ModelPLaMo3 = "plamo3" // the tokens with the largest sum of scores
	ModelBERT   = "bert"   // the longest tokens from the start of each word (WordPiece)
	ModelRWKV   = "rwkv"   // the longest tokens from the start of the text, byte by byte
	ModelT5     = "t5"     // SentencePiece's tokens with the largest sum of scores (unigram)
)

// TokenType is the type of a vocabulary entry, numbered as in
// tokenizer.ggml.token_type.
type TokenType int32

// Token types. Control and unknown tokens are matched in text only when
// [EncodeOptions.ParseSpecial] is set; user-defined tokens always are.
const (
	Undefined   TokenType = 0
	Normal      TokenType = 1
	Unknown     TokenType = 2
	Control     TokenType = 3
	UserDefined TokenType = 4
	Unused      TokenType = 5
	Byte        TokenType = 6 // a single byte, written <0xXX>
)

// Config describes a vocabulary and how to use it. Start from [DefaultConfig], which has the defaults of GGUF
// readers for absent keys: in a zero Config all special ids would be token 0.
type Config struct {
	Model string // one of the tokenizer models
	Pre   string // split patterns of ModelBPE, see PreTokenizers; unused by others

	Tokens []string    // piece texts, indexed by id
	Scores []float32   // merge priorities (SPM) or scores, one per token; nil means all 0
	Types  []TokenType // one per token; nil means all Normal
	Merges []string    // "left right", best first; BPE only

	// Ids of special tokens; None if absent.
	BOS, EOS, EOT, Unknown, Padding ID
	// Separator stands between two texts that are encoded together, as for rerankers.
	Separator ID

	AddBOS         bool // Encode with AddSpecial starts with BOS
	AddEOS         bool // Encode with AddSpecial ends with EOS
	AddSeparator   bool // Separator stands between two texts that are encoded together, and ends texts of BERT
	AddSpacePrefix bool // SPM text starts with a space that decoding removes

	// For BERT only.
	Lowercase, StripAccents bool
	// For T5 only: MergeSpaces merges blanks in a row and drops those at the ends; CharsMap is SentencePiece's table
	// of character replacements, or nil.
	MergeSpaces bool
	CharsMap    []byte

	// ExtraEOG are further ids that end a generation, beyond those known by role (EOS, EOT) or by text
	// ("<|im_end|>", "<|eot_id|>", …).
	ExtraEOG []ID

	// StripRight are special tokens that swallow the white space after them when they are matched in text. GGUF has
	// no key for them: FromMetadata sets them for Phi-3, and KeyValues omits them.
	StripRight []ID

	// ChatTemplate is the Jinja source that renders conversations for the model, or "". It affects no token; it is
	// here because the vocabulary contains its mark-up.
	ChatTemplate string
	// RerankTemplate is the text that a reranker gets, with the placeholders {query} and {document}; "" if it gets
	// both with Separator between them.
	RerankTemplate string
}

// DefaultConfig returns a Config without tokens, with the special ids and switches that GGUF readers assume for the
// model and the pre-tokenizer. The ids may be beyond a small vocabulary: replace them by the vocabulary's.
func DefaultConfig(model, pre string) (Config, error) {
	cfg := Config{Model: model, Pre: pre, EOT: None, Padding: None, Separator: None}
	switch model {
	case ModelSPM:
		cfg.BOS, cfg.EOS, cfg.Unknown = 1, 2, 0
		cfg.AddBOS, cfg.AddSpacePrefix = true, true
		return cfg, nil
	case ModelPLaMo3:
		cfg.BOS, cfg.EOS, cfg.Unknown, cfg.Padding = 1, 2, 0, 3
		return cfg, nil
	case ModelBERT:
		cfg.BOS, cfg.EOS, cfg.Unknown, cfg.Separator, cfg.Padding = 101, None, 100, 102, 0
		cfg.AddBOS, cfg.AddSeparator, cfg.Lowercase, cfg.StripAccents = true, true, true, true
		return cfg, nil
	case ModelT5:
		cfg.BOS, cfg.EOS, cfg.Unknown, cfg.Padding = None, 1, 2, 0
		cfg.AddEOS = true
		return cfg, nil
	case ModelRWKV:
		cfg.BOS, cfg.EOS, cfg.Unknown = None, None, None
		return cfg, nil
	case ModelGemma4:
		cfg.Pre = ModelGemma4
		cfg.BOS, cfg.EOS, cfg.Unknown = None, None, None
		cfg.AddBOS = true
		return cfg, nil
	case ModelBPE:
		rule, err := lookupPre(pre)
		if err != nil {
			return Config{}, err
		}
		cfg.BOS, cfg.EOS, cfg.Unknown = 11, 11, None
		if rule.noBOS {
			cfg.BOS = None
		}
		cfg.AddBOS = rule.addBOS
		return cfg, nil
	}
	return Config{}, modelError(model)
}

func (c *Config) isBPE() bool { return c.Model == ModelBPE || c.Model == ModelGemma4 }

func modelError(model string) error {
	return fmt.Errorf("tokenizer: model %q is not supported, use %q (SentencePiece pieces with scores), %q (byte-level BPE), %q (BPE of characters), %q (WordPiece), %q (the longest tokens), %q or %q (pieces with the best sum of scores)",
		model, ModelSPM, ModelBPE, ModelGemma4, ModelBERT, ModelRWKV, ModelT5, ModelPLaMo3)
}

// validate reports each kind of mistake with its field and index.
func (c *Config) validate() error {
	if !slices.Contains([]string{ModelSPM, ModelPLaMo3, ModelBERT, ModelRWKV, ModelT5}, c.Model) && !c.isBPE() {
		return modelError(c.Model)
	}
	n := len(c.Tokens)
	if n == 0 {
		return errors.New("tokenizer: the vocabulary has no tokens")
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("tokenizer: %d tokens, at most %d can be numbered", n, math.MaxInt32)
	}
	if len(c.Scores) != 0 && len(c.Scores) != n {
		return fmt.Errorf("tokenizer: %d scores for %d tokens, give one each or none", len(c.Scores), n)
	}
	if len(c.Types) != 0 && len(c.Types) != n {
		return fmt.Errorf("tokenizer: %d token types for %d tokens, give one each or none", len(c.Types), n)
	}
	for i, s := range c.Scores {
		if s != s {
			return fmt.Errorf("tokenizer: the score of token %d (%q) is not a number", i, c.Tokens[i])
		}
	}
	for i, t := range c.Types {
		if t < Undefined || t > Byte {
			return fmt.Errorf("tokenizer: token %d (%q) has type %d, known are %d to %d", i, c.Tokens[i], t, Undefined, Byte)
		}
		if _, ok := parseByteToken(c.Tokens[i]); t == Byte && !ok {
			return fmt.Errorf("tokenizer: token %d (%q) is a byte token but not written <0xXX>", i, c.Tokens[i])
		}
	}
	if err := c.validateMerges(); err != nil {
		return err
	}
	return c.validateIDs()
}

func (c *Config) validateMerges() error {
	if !c.isBPE() && len(c.Merges) > 0 {
		return fmt.Errorf("tokenizer: %d merges given, but model %q merges by score", len(c.Merges), c.Model)
	}
	for i, m := range c.Merges {
		if _, _, ok := splitMerge(m); !ok {
			return fmt.Errorf("tokenizer: merge %d is %q, want two pieces with a space between", i, m)
		}
	}
	return nil
}

func (c *Config) validateIDs() error {
	n := len(c.Tokens)
	for _, s := range []struct {
		name string
		id   ID
	}{{"BOS", c.BOS}, {"EOS", c.EOS}, {"EOT", c.EOT}, {"Unknown", c.Unknown}, {"Padding", c.Padding}, {"Separator", c.Separator}} {
		if s.id < None || int(s.id) >= n {
			return fmt.Errorf("tokenizer: %s is token %d, want %d (absent) to %d", s.name, s.id, None, n-1)
		}
	}
	for name, ids := range map[string][]ID{"ExtraEOG": c.ExtraEOG, "StripRight": c.StripRight} {
		for _, id := range ids {
			if id < 0 || int(id) >= n {
				return fmt.Errorf("tokenizer: %s has token %d, want 0 to %d", name, id, n-1)
			}
		}
	}
	if c.AddBOS && c.BOS == None {
		return errors.New("tokenizer: texts should begin with a BOS token, but the vocabulary has none")
	}
	if c.AddEOS && c.EOS == None {
		return errors.New("tokenizer: texts should end with an EOS token, but the vocabulary has none")
	}
	return nil
}

// clone returns a deep copy.
func (c *Config) clone() Config {
	d := *c
	d.Tokens = slices.Clone(c.Tokens)
	d.Scores = slices.Clone(c.Scores)
	d.Types = slices.Clone(c.Types)
	d.Merges = slices.Clone(c.Merges)
	d.ExtraEOG = slices.Clone(c.ExtraEOG)
	d.StripRight = slices.Clone(c.StripRight)
	d.CharsMap = slices.Clone(c.CharsMap)
	return d
}

// splitMerge cuts a merge at its first space after its first byte.
func splitMerge(m string) (left, right string, ok bool) {
	if m == "" {
		return "", "", false
	}
	i := strings.IndexByte(m[1:], ' ') + 1
	if i == 0 || i == len(m)-1 {
		return "", "", false
	}
	return m[:i], m[i+1:], true
}

// parseByteToken parses a byte token's text <0xXX>.
func parseByteToken(text string) (byte, bool) {
	if len(text) != 6 || !strings.HasPrefix(text, "<0x") || text[5] != '>' {
		return 0, false
	}
	hi, lo := hexDigit(text[3]), hexDigit(text[4])
	if hi < 0 || lo < 0 {
		return 0, false
	}
	return byte(hi<<4 | lo), true
}

// byteToken returns the text of a byte token.
func byteToken(b byte) string { return fmt.Sprintf("<0x%02X>", b) }

func hexDigit(b byte) int {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0')
	case 'a' <= b && b <= 'f':
		return int(b-'a') + 10
	case 'A' <= b && b <= 'F':
		return int(b-'A') + 10
	}
	return -1
}
