package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// DecodeJSON reads a value as Python's json does: objects become dicts in key order, integers stay integers, and the
// last of duplicate keys counts. Its strings have no tag.
func DecodeJSON(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("the text is not valid UTF-8")
	}
	if at := loneSurrogate(data); at >= 0 {
		return nil, fmt.Errorf("offset %d: half of a surrogate pair, which is not a character", at)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := decodeValue(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("offset %d: more follows after the value", d.InputOffset())
	}
	return v, nil
}

// loneSurrogate returns the offset of an escaped lone surrogate, or -1.
func loneSurrogate(data []byte) int {
	for i := 0; i < len(data)-1; i++ {
		if data[i] != '\\' {
			continue
		}
		i++
		high, ok := escapedUnit(data, i)
		if !ok || !utf16.IsSurrogate(high) {
			continue
		}
		low := rune(0)
		if i+5 < len(data) && data[i+5] == '\\' {
			low, _ = escapedUnit(data, i+6)
		}
		if utf16.DecodeRune(high, low) == utf8.RuneError {
			return i - 1
		}
		i += 10
	}
	return -1
}

// escapedUnit reads uXXXX at i.
func escapedUnit(data []byte, i int) (rune, bool) {
	if i+5 > len(data) || data[i] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(data[i+1:i+5]), 16, 16)
	return rune(n), err == nil
}

func decodeValue(d *json.Decoder, depth int) (Value, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("offset %d: nested more than %d deep", d.InputOffset(), maxDepth)
	}
	t, err := d.Token()
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case string:
		return NewText(t), nil
	case json.Number:
		return decodeNumber(string(t))
	case json.Delim:
		if t == '[' {
			return decodeList(d, depth)
		}
		return decodeMapping(d, depth)
	}
	return t, nil // null, true, false
}

func decodeNumber(s string) (Value, error) {
	if !strings.ContainsAny(s, ".eE") {
		i, ok := new(big.Int), false
		if len(s) <= maxBits { // longer ones take quadratic time
			i, ok = i.SetString(s, 10)
		}
		if !ok || i.BitLen() > maxBits {
			return nil, fmt.Errorf("a number of more than %d bits", maxBits)
		}
		return integer(i), nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return nil, err
	}
	return f, nil
}

func decodeList(d *json.Decoder, depth int) (Value, error) {
	items := []Value{}
	for d.More() {
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return NewList(items), err
}

func decodeMapping(d *json.Decoder, depth int) (Value, error) {
	m := NewDict()
	for d.More() {
		k, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		m.Set(k.(string), v)
	}
	_, err := d.Token()
	return m, err
}
