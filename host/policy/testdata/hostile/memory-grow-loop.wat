;; Grows its memory until that is refused, and falls over it.
;; ends: memory
;; limits: fuel=50000000
(module
  (memory (export "memory") 1)
  (func (export "flynn_abi") (result i32) (i32.const 0x10000))
  (func (export "flynn_buffer") (param $size i32) (result i32)
    (select (i32.const 4096) (i32.const 0) (i32.le_u (local.get $size) (i32.const 60000))))
  (func (export "flynn_route") (param $size i32) (result i64)
    (loop (br_if 0 (i32.ge_s (memory.grow (i32.const 16)) (i32.const 0))))
    (unreachable)))
