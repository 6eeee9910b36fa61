;; Wants a page more than its limit from the start.
;; ends: load "3 pages of memory"
;; limits: memory=131072
(module
  (memory (export "memory") 3)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_route") (param $size i32) (result i64)
    (i64.const 0)))
