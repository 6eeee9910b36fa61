;; Its buffer begins where memory ends.
;; ends: load "outside memory"
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (i32.const 65536))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
