package clitest

import (
	"fmt"
	"strings"

	"github.com/goggml/ggml"
)

// Condition is what scripts ask by [device:NAME]: whether there is such a device.
func Condition(cond string) (bool, error) {
	name, ok := strings.CutPrefix(cond, "device:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	_, err := ggml.DeviceByName(name)
	return err == nil, nil
}
