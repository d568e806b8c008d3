"""The lab: tiny models really trained on the CPU, healthy and with an injected fault, for the tests of the detectors."""
