package tokenizer

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Metadata looks up a key of a GGUF file. Values are bools, strings, numbers of any width, or slices of these.
type Metadata interface {
	Value(key string) (any, bool)
}

// KeyValue is one key of a GGUF file.
type KeyValue struct {
	Key   string
	Value any
}

// KeyValues is a list of keys in the order of the file. It is a [Metadata].
type KeyValues []KeyValue

// Value returns the value of the first entry for key.
func (kvs KeyValues) Value(key string) (any, bool) {
	for _, kv := range kvs {
		if kv.Key == key {
			return kv.Value, true
		}
	}
	return nil, false
}

const keyPrefix = "tokenizer.ggml."

// ChatTemplateKey is the GGUF key of [Config.ChatTemplate].
const ChatTemplateKey = "tokenizer.chat_template"

// RerankTemplateKey is the GGUF key of [Config.RerankTemplate].
const RerankTemplateKey = "tokenizer.chat_template.rerank"

// FromMetadata makes a tokenizer from the tokenizer.ggml.* keys and the chat template, with llama.cpp's defaults for
// absent keys. As in llama.cpp, a special id beyond the vocabulary counts as absent.
func FromMetadata(m Metadata) (*Tokenizer, error) {
	cfg, err := ConfigFromMetadata(m)
	if err != nil {
		return nil, err
	}
	return New(cfg)
}

// ConfigFromMetadata is the first half of [FromMetadata], for changing something before calling [New].
func ConfigFromMetadata(m Metadata) (Config, error) {
	if m == nil {
		return Config{}, errors.New("tokenizer: the metadata is nil")
	}
	r := reader{m: m}
	model := r.text("model")
	pre := r.text("pre")
	if r.err == nil && model == "" {
		return Config{}, fmt.Errorf("tokenizer: key %smodel is missing: the file has no vocabulary", keyPrefix)
	}
	if r.err != nil {
		return Config{}, r.err
	}
	cfg, err := DefaultConfig(model, pre)
	if err != nil {
		return Config{}, err
	}
	r.vocabulary(&cfg)
	r.specialIDs(&cfg)
	r.flag("add_bos_token", &cfg.AddBOS)
	if cfg.isBPE() && preRules[cfg.Pre].alwaysBOS {
		cfg.AddBOS = true
	}
	r.flag("add_eos_token", &cfg.AddEOS)
	r.flag("add_space_prefix", &cfg.AddSpacePrefix)
	r.flag("add_sep_token", &cfg.AddSeparator)
	switch model {
	case ModelRWKV:
		cfg.AddBOS, cfg.AddEOS = false, false // as stock llama.cpp encodes, whatever the file says
	case ModelBERT:
		r.flag("normalizer.lowercase", &cfg.Lowercase)
		cfg.StripAccents = cfg.Lowercase
		r.flag("normalizer.strip_accents", &cfg.StripAccents)
	case ModelT5:
		r.flag("remove_extra_whitespaces", &cfg.MergeSpaces)
		cfg.CharsMap = r.bytes("precompiled_charsmap")
	}
	if r.err == nil && len(cfg.Tokens) == 0 {
		r.err = fmt.Errorf("tokenizer: key %stokens is missing or empty", keyPrefix)
	}
	if r.err != nil {
		return Config{}, r.err
	}
	if name, _ := m.Value("general.name"); isPhi3(name) {
		cfg.StripRight = phi3StripRight(&cfg)
	}
	if template, ok := m.Value(ChatTemplateKey); ok {
		cfg.ChatTemplate, _ = template.(string) // some files have a list of templates
	}
	if template, ok := m.Value(RerankTemplateKey); ok {
		cfg.RerankTemplate, _ = template.(string)
	}
	return cfg, nil
}

func isPhi3(name any) bool {
	s, _ := name.(string)
	s = strings.ToLower(s)
	return strings.Contains(s, "phi-3") || strings.Contains(s, "phi3")
}

// phi3StripRight lists the tokens of Phi-3 that swallow the white space after them; its GGUF files do not record it.
func phi3StripRight(cfg *Config) []ID {
	var ids []ID
	for i, text := range cfg.Tokens {
		special := len(cfg.Types) > i && attrOf(cfg.Types[i])&(attrHidden|attrUserDefined) != 0
		plain := text == "<unk>" || text == "<s>" || text == "<|endoftext|>"
		if !plain && (special || text == "</s>") {
			ids = append(ids, ID(i))
		}
	}
	return ids
}

// A reader reads keys until one has the wrong type.
type reader struct {
	m   Metadata
	err error
}

func (r *reader) value(name string) (reflect.Value, bool) {
	if r.err != nil {
		return reflect.Value{}, false
	}
	v, ok := r.m.Value(keyPrefix + name)
	return reflect.ValueOf(v), ok && v != nil
}

func (r *reader) wrong(name, want string, v reflect.Value) {
	r.err = fmt.Errorf("tokenizer: key %s%s is a %s, want %s", keyPrefix, name, v.Type(), want)
}

func (r *reader) text(name string) string {
	v, ok := r.value(name)
	if ok && v.Kind() != reflect.String {
		r.wrong(name, "a string", v)
		return ""
	}
	if !ok {
		return ""
	}
	return v.String()
}

func (r *reader) flag(name string, to *bool) {
	v, ok := r.value(name)
	if !ok {
		return
	}
	if v.Kind() != reflect.Bool {
		r.wrong(name, "a bool", v)
		return
	}
	*to = v.Bool()
}

// id reads a special id. Ids beyond the n tokens count as absent: files use them for "none".
func (r *reader) id(name string, n int, to *ID) {
	if int(*to) >= n {
		*to = None
	}
	v, ok := r.value(name)
	if !ok {
		return
	}
	switch {
	case v.CanInt() && v.Int() >= 0 && v.Int() < int64(n):
		*to = ID(v.Int())
	case v.CanUint() && v.Uint() < uint64(n):
		*to = ID(v.Uint())
	case !v.CanInt() && !v.CanUint():
		r.wrong(name, "an integer", v)
	}
}

// endingKeys name tokens that end a generation, besides EOS and EOT.
var endingKeys = []string{"eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"}

func (r *reader) specialIDs(cfg *Config) {
	n := len(cfg.Tokens)
	r.id("bos_token_id", n, &cfg.BOS)
	r.id("eos_token_id", n, &cfg.EOS)
	r.id("eot_token_id", n, &cfg.EOT)
	r.id("unknown_token_id", n, &cfg.Unknown)
	r.id("padding_token_id", n, &cfg.Padding)
	r.id("seperator_token_id", n, &cfg.Separator) // files spell it so
	for _, name := range endingKeys {
		id := None
		if r.id(name, n, &id); id != None {
			cfg.ExtraEOG = append(cfg.ExtraEOG, id)
		}
	}
}

func (r *reader) vocabulary(cfg *Config) {
	cfg.Tokens = list(r, "tokens", "an array of strings", 0, func(v reflect.Value) (string, bool) {
		return asString(v)
	})
	n := len(cfg.Tokens)
	cfg.Scores = list(r, "scores", "an array of numbers", n, asFloat)
	cfg.Types = list(r, "token_type", "an array of integers", n, func(v reflect.Value) (TokenType, bool) {
		x, ok := asFloat(v)
		return TokenType(x), ok && !v.CanFloat()
	})
	if !cfg.isBPE() {
		return
	}
	if _, ok := r.value("merges"); !ok && r.err == nil {
		r.err = errors.New("tokenizer: key " + keyPrefix + "merges is missing: a BPE vocabulary needs it")
		return
	}
	cfg.Merges = list(r, "merges", "an array of strings", 0, asString)
}

// bytes reads an array of small integers.
func (r *reader) bytes(name string) []byte {
	return list(r, name, "an array of bytes", 0, func(v reflect.Value) (byte, bool) {
		x, ok := asFloat(v)
		return byte(int(x)), ok && !v.CanFloat() && x >= -128 && x <= 255
	})
}

func asString(v reflect.Value) (string, bool) {
	if v.Kind() != reflect.String {
		return "", false
	}
	return v.String(), true
}

func asFloat(v reflect.Value) (float32, bool) {
	switch {
	case v.CanInt():
		return float32(v.Int()), true
	case v.CanUint():
		return float32(v.Uint()), true
	case v.CanFloat():
		return float32(v.Float()), true
	}
	return 0, false
}

// list reads an array, or nil if the key is absent. If limit is not 0, it drops entries beyond it, as readers of
// GGUF do.
func list[T any](r *reader, name, want string, limit int, convert func(reflect.Value) (T, bool)) []T {
	v, ok := r.value(name)
	if !ok {
		return nil
	}
	if v.Kind() != reflect.Slice && v.Kind() != reflect.Array {
		r.wrong(name, want, v)
		return nil
	}
	n := v.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	out := make([]T, n)
	for i := range out {
		item := v.Index(i)
		if item.Kind() == reflect.Interface {
			item = item.Elem()
		}
		if out[i], ok = convert(item); !ok {
			r.wrong(name, want, v)
			return nil
		}
	}
	return out
}

// KeyValues returns the keys that describe the tokenizer in a GGUF file, with the value types that llama.cpp reads.
// [FromMetadata] makes an equal tokenizer from them, with one exception: readers use token 11 as BOS or EOS of a
// byte-level BPE vocabulary that has None, so set both. Keys hold at most four of ExtraEOG.
func (t *Tokenizer) KeyValues() KeyValues {
	c := &t.cfg
	types := make([]int32, len(c.Tokens))
	for i := range types {
		types[i] = int32(Normal)
		if len(c.Types) > 0 {
			types[i] = int32(c.Types[i])
		}
	}
	var kvs KeyValues
	add := func(name string, value any) { kvs = append(kvs, KeyValue{keyPrefix + name, value}) }
	add("model", c.Model)
	add("pre", canonicalPre(c.Pre))
	add("tokens", append([]string{}, c.Tokens...))
	if len(c.Scores) > 0 {
		add("scores", append([]float32{}, c.Scores...))
	}
	add("token_type", types)
	if c.isBPE() {
		add("merges", append([]string{}, c.Merges...))
	}
	for _, s := range []struct {
		name string
		id   ID
	}{{"bos", c.BOS}, {"eos", c.EOS}, {"eot", c.EOT}, {"unknown", c.Unknown}, {"padding", c.Padding}, {"seperator", c.Separator}} {
		if s.id != None {
			add(s.name+"_token_id", uint32(s.id))
		}
	}
	for i, id := range c.ExtraEOG[:min(len(c.ExtraEOG), len(endingKeys))] {
		add(endingKeys[i], uint32(id))
	}
	add("add_bos_token", c.AddBOS)
	add("add_eos_token", c.AddEOS)
	if c.Model == ModelSPM || c.AddSpacePrefix {
		add("add_space_prefix", c.AddSpacePrefix)
	}
	if c.AddSeparator {
		add("add_sep_token", true)
	}
	switch c.Model {
	case ModelBERT:
		add("normalizer.lowercase", c.Lowercase)
		add("normalizer.strip_accents", c.StripAccents)
	case ModelT5:
		add("remove_extra_whitespaces", c.MergeSpaces)
		if len(c.CharsMap) > 0 {
			add("precompiled_charsmap", append([]byte{}, c.CharsMap...))
		}
	}
	if c.ChatTemplate != "" {
		kvs = append(kvs, KeyValue{ChatTemplateKey, c.ChatTemplate})
	}
	if c.RerankTemplate != "" {
		kvs = append(kvs, KeyValue{RerankTemplateKey, c.RerankTemplate})
	}
	return kvs
}
