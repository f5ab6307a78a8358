package clitest

import (
	"fmt"
	"os"
	"strings"

	"github.com/goggml/ggml"
)

// Condition is what scripts ask by [device:NAME]: whether there is such a device; and by
// [root]: whether permissions hinder nobody.
func Condition(cond string) (bool, error) {
	if cond == "root" {
		return os.Geteuid() == 0, nil
	}
	name, ok := strings.CutPrefix(cond, "device:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	_, err := ggml.DeviceByName(name)
	return err == nil, nil
}
