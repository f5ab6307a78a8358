package cli

// eachPath applies change to the value of a flag that names files: a path, or several.
func eachPath(value any, change func(path string) string) any {
	switch v := value.(type) {
	case string:
		return change(v)
	case []string:
		list := make([]string, len(v))
		for i, path := range v {
			list[i] = change(path)
		}
		return list
	case []any: // value from a file
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = eachPath(item, change)
		}
		return list
	}
	return value
}
